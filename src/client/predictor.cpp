#include "client/predictor.h"

#include <algorithm>
#include <bit>

namespace salus::client {
namespace {

// A script whose sizes keep changing must not fill memory with records.
constexpr std::size_t kKeysMax = 1 << 17;
constexpr std::uint8_t kNeededMax = 64;
/// A kind of iteration is known after so many of them.
constexpr unsigned kKnownAfter = 2;
constexpr std::uint8_t kSurvivalsMax = 2;
/// So many deaths in a row make up for a survival.
constexpr std::uint8_t kDeathsToForget = 16;

}  // namespace

std::size_t Predictor::KeyHash::operator()(const Key& key) const {
    std::uint64_t hash = key.number * 0x9e3779b97f4a7c15ull ^ key.size;
    hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9ull + key.stream;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebull + key.kind;
    return static_cast<std::size_t>(hash ^ hash >> 32);
}

Predictor::Allocation Predictor::allocated(std::uint64_t size, std::uint64_t stream, std::uint64_t kind) {
    const auto ticket = static_cast<Ticket>(live_.size());
    const Key key{count_of_size_[{0, size, stream, kind}]++, size, stream, kind};
    const Key about{ticket, static_cast<std::uint64_t>(std::bit_width(size)), stream, kind};
    live_.push_back({key, about, false});
    return {ticket, is_expected_to_die(key, about)};
}

bool Predictor::is_expected_to_die(const Key& key, const Key& about) const {
    if (const auto known = learned_.find(key); known != learned_.end()) return known->second.deaths >= known->second.needed;
    // See Note [Allocations not seen before].
    const auto kind = kinds_.find(key.kind);
    if (kind == kinds_.end() || kind->second.iterations < kKnownAfter || key.size / 2 > kind->second.largest_death)
        return false;
    const auto doubt = doubts_.find(about);
    return doubt == doubts_.end() || doubt->second.survivals < kSurvivalsMax;
}

void Predictor::boundary() {
    if (live_.empty()) return;
    if (learned_.size() > kKeysMax) learned_.clear();
    if (doubts_.size() > kKeysMax) doubts_.clear();
    if (kinds_.size() > kKeysMax) kinds_.clear();
    for (const Live& allocation : live_) {
        Record& record = learned_[allocation.key];
        Doubt& doubt = doubts_[allocation.about];
        if (allocation.dead) {
            record.deaths = std::min<std::uint8_t>(record.deaths, kNeededMax - 1) + 1;
            if (doubt.survivals > 0 && ++doubt.deaths == kDeathsToForget) doubt = {std::uint8_t(doubt.survivals - 1), 0};
            Kind& kind = kinds_[allocation.key.kind];
            kind.largest_death = std::max(kind.largest_death, allocation.key.size);
        } else {
            record.deaths = 0;
            record.needed = std::min<std::uint8_t>(record.needed, kNeededMax / 2) * 2;
            doubt = {std::min<std::uint8_t>(doubt.survivals + 1, kSurvivalsMax), 0};
        }
    }
    ++kinds_[live_.back().key.kind].iterations;
    live_.clear();
    count_of_size_.clear();
}

}  // namespace salus::client
