#include "client/predictor.h"

#include <algorithm>

namespace salus::client {
namespace {

// A script whose sizes keep changing must not fill memory with records.
constexpr std::size_t kKeysMax = 1 << 17;
constexpr std::uint8_t kNeededMax = 64;

}  // namespace

std::size_t Predictor::KeyHash::operator()(const Key& key) const {
    std::uint64_t hash = key.ordinal * 0x9e3779b97f4a7c15ull ^ key.size;
    hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9ull + key.stream;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebull + key.kind;
    return static_cast<std::size_t>(hash ^ hash >> 32);
}

Predictor::Allocation Predictor::allocated(std::uint64_t size, std::uint64_t stream, std::uint64_t kind) {
    const auto ticket = static_cast<Ticket>(live_.size());
    const Key key{ticket, size, stream, kind};
    live_.push_back({key, false});
    const auto known = learned_.find(key);
    return {ticket, known != learned_.end() && known->second.deaths >= known->second.needed};
}

void Predictor::boundary() {
    if (learned_.size() > kKeysMax) learned_.clear();
    for (const Live& allocation : live_) {
        Record& record = learned_[allocation.key];
        if (allocation.dead) {
            record.deaths = std::min<std::uint8_t>(record.deaths, kNeededMax - 1) + 1;
        } else {
            record.deaths = 0;
            record.needed = std::min<std::uint8_t>(record.needed, kNeededMax / 2) * 2;
        }
    }
    live_.clear();
}

}  // namespace salus::client
