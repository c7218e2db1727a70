#include "client/predictor.h"

namespace salus::client {
namespace {

// Scripts whose sizes vary without end must not fill memory with what was learned of them.
constexpr std::size_t kKeysMax = 1 << 17;

}  // namespace

std::size_t Predictor::KeyHash::operator()(const Key& key) const {
    std::uint64_t hash = key.ordinal * 0x9e3779b97f4a7c15ull ^ key.size;
    hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9ull + key.stream;
    return static_cast<std::size_t>(hash ^ hash >> 32);
}

Predictor::Allocation Predictor::allocated(std::uint64_t size, std::uint64_t stream) {
    const auto ticket = static_cast<Ticket>(live_.size());
    const Key key{ticket, size, stream};
    live_.push_back({key, false});
    const auto known = learned_.find(key);
    return {ticket, known != learned_.end() && known->second == Verdict::kDies};
}

void Predictor::boundary() {
    if (learned_.size() > kKeysMax) learned_.clear();
    for (const Live& allocation : live_) {
        Verdict& verdict = learned_[allocation.key];
        if (!allocation.dead) verdict = Verdict::kSurvives;
        else if (verdict == Verdict::kUnknown) verdict = Verdict::kDies;
    }
    live_.clear();
}

}  // namespace salus::client
