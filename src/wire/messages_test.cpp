#include "wire/messages.h"

#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace salus::wire {
namespace {

template <std::size_t N>
std::string shown(const Text<N>& text) {
    return std::string(text.view());
}

// The fields of each message.
auto fields(const Attach& m) {
    return std::tuple(m.flags, m.job, m.priority, m.crew, m.weight, m.occupancy, m.iterations_total, m.iteration_time_ns,
                      m.persistent, m.ephemeral, shown(m.name), shown(m.gpu));
}
auto fields(const Acknowledge& m) { return std::tuple(m.lane, m.version); }
auto fields(const PagedOut&) { return std::tuple(); }
auto fields(const PagedIn&) { return std::tuple(); }
auto fields(const Unpageable& m) { return std::tuple(m.for_good); }
auto fields(const Observe& m) { return std::tuple(m.persistent); }
auto fields(const Need& m) { return std::tuple(m.number, m.persistent, m.ephemeral); }
auto fields(const Leave&) { return std::tuple(); }
auto fields(const Class& m) { return std::tuple(m.interactive, m.reason); }
auto fields(const JoinCrew& m) { return std::tuple(m.crew); }
auto fields(const Welcome& m) { return std::tuple(m.client, m.capacity, shown(m.device), shown(m.gpu)); }
auto fields(const Sorry& m) { return std::tuple(shown(m.why), m.users_mistake); }
auto fields(const LanePieces& m) { return std::tuple(m.lane, m.first); }
auto fields(const MapLane& m) { return std::tuple(m.lane, m.version, m.size); }
auto fields(const UnmapLane& m) { return std::tuple(m.lane, m.version); }
auto fields(const Revoke&) { return std::tuple(); }
auto fields(const NeedAnswer& m) {
    return std::tuple(m.need, m.given, m.persistent, m.more, m.capacity, m.others_hold, m.holder_holds, m.holder_job,
                      shown(m.holder));
}
auto fields(const PageOut&) { return std::tuple(); }
auto fields(const PageIn&) { return std::tuple(); }
auto fields(const Hurry&) { return std::tuple(); }
auto fields(const Arm& m) { return std::tuple(m.gates, m.requests); }
auto fields(const Interrupted&) { return std::tuple(); }
auto fields(const Unshared& m) { return std::tuple(m.job, shown(m.why)); }
auto fields(const Refuse& m) { return std::tuple(m.need, m.capacity); }
auto fields(const Run& m) {
    return std::tuple(m.job, shown(m.name), shown(m.log), m.command_key, m.program_key, shown(m.command), m.waited, m.weight,
                      m.priority);
}
auto fields(const Running& m) {
    return std::tuple(m.job, shown(m.device), shown(m.gpu), shown(m.mps), m.waits, m.has_several);
}
auto fields(const Start& m) { return std::tuple(shown(m.gpu), shown(m.mps)); }
auto fields(const Waits& m) {
    return std::tuple(shown(m.state), shown(m.reason), shown(m.behind), m.behind_job, m.user_jobs_max, m.user_memory_max);
}
auto fields(const Ended& m) { return std::tuple(m.status, m.took_ns); }
auto fields(const UntoldEnd& m) {
    return std::tuple(m.status, m.took_ns, m.ended_unix_s, m.command_key, m.program_key, shown(m.command));
}
auto fields(const AskStatus&) { return std::tuple(); }
auto fields(const SetPolicy& m) { return std::tuple(shown(m.name)); }
auto fields(const FlushTrace& m) { return std::tuple(m.device); }
auto fields(const ReloadService&) { return std::tuple(); }
auto fields(const StopService& m) { return std::tuple(m.even_with_jobs); }
auto fields(const PauseJob& m) { return std::tuple(m.job.number, shown(m.job.name)); }
auto fields(const ResumeJob& m) { return std::tuple(m.job.number, shown(m.job.name)); }
auto fields(const SuspendJob& m) { return std::tuple(m.job.number, shown(m.job.name)); }
auto fields(const PageIdleJob& m) { return std::tuple(m.job.number, shown(m.job.name)); }
auto fields(const KillJob& m) { return std::tuple(m.job.number, shown(m.job.name), m.at_once); }
auto fields(const SetJob& m) {
    return std::tuple(m.job.number, shown(m.job.name), m.fields, m.priority, m.weight, m.iterations, m.interactive);
}
auto fields(const WaitJob& m) { return std::tuple(m.job.number, shown(m.job.name)); }
auto fields(const AskHistory&) { return std::tuple(); }
auto fields(const AskUsage& m) { return std::tuple(m.since_unix_s); }
auto fields(const ClearHistory& m) { return std::tuple(shown(m.part)); }
auto fields(const CopyTrace& m) { return std::tuple(m.last_bytes, m.device); }
auto fields(const Wishes& m) { return std::tuple(m.by, m.client_class, m.persistent, m.ephemeral, shown(m.devices)); }
auto fields(const Answer& m) { return std::tuple(m.ok, m.size); }

/// One of each, with no field at its default.
std::vector<Message> examples() {
    constexpr std::uint64_t kLarge = 0x8877'6655'4433'2211;
    Attach attach;
    attach.flags = Attach::kUnpageable | Attach::kResident;
    attach.job = 7;
    attach.priority = -3;
    attach.crew = 8;
    attach.weight = 0.1;
    attach.occupancy = 0.25;
    attach.iterations_total = kLarge;
    attach.iteration_time_ns = kLarge + 1;
    attach.persistent = kLarge + 2;
    attach.ephemeral = kLarge + 3;
    attach.name = Text<64>("resnet50");
    attach.gpu = Text<64>("GPU-1");
    Run run;
    run.job = 12;
    run.name = Text<64>("söze");
    run.log = Text<256>("/home/a b/log");
    run.waited = 1;
    run.weight = 2.5;
    run.priority = -4;
    run.command_key = kLarge;
    run.program_key = kLarge + 1;
    run.command = Text<148>("python train.py --lr 0.1");
    const JobReference job{3, Text<64>("söze")};
    return {attach,
            Acknowledge{1, 0xfffffff0u},
            PagedOut{},
            PagedIn{},
            Unpageable{1},
            Observe{kLarge},
            Need{7, kLarge, kLarge + 1},
            Leave{},
            Class{1, 7},
            JoinCrew{8},
            Welcome{5, kLarge, Text<16>("cuda"), Text<64>("GPU-1")},
            Sorry{Text<256>("another user's"), 1},
            LanePieces{3, 4},
            MapLane{3, 4, kLarge},
            UnmapLane{3, 4},
            Revoke{},
            NeedAnswer{7, 0, 0, kLarge, kLarge + 1, kLarge + 2, kLarge + 3, 4, Text<64>("söze")},
            PageOut{},
            PageIn{},
            Hurry{},
            Arm{1, 0},
            Refuse{kLarge, kLarge + 1},
            run,
            Running{12, Text<16>("cuda"), Text<64>("GPU-1"), Text<128>("/run/mps"), 1, 1},
            Wishes{Wishes::kEnvironment, Wishes::kBatch, 0, kLarge, kLarge + 1, Text<448>("GPU-1,GPU-2")},
            Start{Text<64>("GPU-1"), Text<128>("/run/mps")},
            Waits{Text<16>("waiting"), Text<32>("turn"), Text<64>("söze"), 3, 4, kLarge},
            Interrupted{},
            Unshared{3, Text<160>("torch.distributed")},
            Ended{-9, kLarge},
            UntoldEnd{130, 0, kLarge, 1.5e9, kLarge + 1, kLarge + 2, Text<148>("python train.py")},
            AskStatus{},
            SetPolicy{Text<32>("srtf")},
            FlushTrace{2},
            ReloadService{},
            StopService{1},
            PauseJob{job},
            ResumeJob{job},
            SuspendJob{job},
            PageIdleJob{job},
            KillJob{job, 1},
            SetJob{job, SetJob::kPriority | SetJob::kIterations, -5, 0.25, kLarge, 1},
            WaitJob{job},
            AskHistory{},
            ClearHistory{Text<256>("train.py")},
            AskUsage{1.5e9},
            CopyTrace{4096, 2},
            Answer{1, kLarge}};
}

bool same(const Message& a, const Message& b) {
    if (a.index() != b.index()) return false;
    return std::visit([&]<typename T>(const T& message) { return fields(message) == fields(std::get<T>(b)); }, a);
}

std::uint16_t type_of(const Message& message) {
    return std::visit([]<typename T>(const T&) { return T::kType; }, message);
}

/// Why decode() refuses it; empty if it does not.
std::string fault_in(std::span<const std::byte> packet) {
    const Result<Message> decoded = decode(packet);
    return decoded ? "" : decoded.error();
}

constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kTypeAt = 6;
constexpr std::size_t kBodyAt = 8;

TEST(Messages, OfEachTypeThereIsOneExample) {
    std::set<std::size_t> kinds;
    std::set<std::uint16_t> types;
    for (const Message& message : examples()) {
        kinds.insert(message.index());
        types.insert(type_of(message));
    }
    EXPECT_EQ(kinds.size(), std::variant_size_v<Message>);
    EXPECT_EQ(types.size(), std::variant_size_v<Message>) << "two messages have one number";
}

TEST(Messages, ComeOutAsTheyWentIn) {
    for (const Message& message : examples()) {
        const Packet packet = encode(message);
        const Result<Message> decoded = decode(packet);
        ASSERT_TRUE(decoded.ok()) << type_of(message) << ": " << decoded.error();
        EXPECT_TRUE(same(message, decoded.value())) << type_of(message);
        EXPECT_EQ(version_of(packet), kVersion);
    }
}

TEST(Messages, WhatIsBehindTheBodyIsZero) {
    for (const Message& message : examples()) {
        const Packet packet = encode(message);
        const std::size_t size =
            std::visit([]<typename T>(const T&) { return std::is_empty_v<T> ? 0 : sizeof(T); }, message);
        for (std::size_t i = kBodyAt + size; i < packet.size(); ++i) {
            ASSERT_EQ(packet[i], std::byte{0}) << "type " << type_of(message) << " byte " << i;
        }
    }
}

TEST(Messages, OfAnyOtherSizeAreNone) {
    const Packet packet = encode(Need{1, 2});
    std::vector<std::byte> longer(packet.begin(), packet.end());
    longer.push_back(std::byte{0});
    EXPECT_EQ(fault_in(longer), "a message of 513 bytes");
    for (std::size_t size = 0; size < kMessageSize; ++size) {
        EXPECT_EQ(fault_in(std::span(packet).first(size)), "a message of " + std::to_string(size) + " bytes");
    }
    EXPECT_EQ(version_of(std::span(packet).first(kBodyAt - 1)), 0u);
}

TEST(Messages, WithoutOurMagicAreNone) {
    for (std::size_t bit = 0; bit < 32; ++bit) {
        Packet packet = encode(Leave{});
        packet[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        EXPECT_EQ(fault_in(packet), "not a Salus message");
        EXPECT_EQ(version_of(packet), 0u);
    }
}

TEST(Messages, OfAnotherVersionSaySo) {
    Packet packet = encode(Leave{});
    const std::uint16_t next = kVersion + 1;
    std::memcpy(packet.data() + kVersionAt, &next, sizeof next);
    EXPECT_EQ(fault_in(packet), "speaks protocol version " + std::to_string(next) + ", not " + std::to_string(kVersion));
    EXPECT_EQ(version_of(packet), next);
}

TEST(Messages, OfUnknownTypeAreNone) {
    std::set<std::uint16_t> known;
    for (const Message& message : examples()) known.insert(type_of(message));
    std::size_t unknown = 0;
    for (unsigned type = 0; type <= 0xffff; ++type) {
        if (known.contains(static_cast<std::uint16_t>(type))) continue;
        Packet packet = encode(Leave{});
        const auto number = static_cast<std::uint16_t>(type);
        std::memcpy(packet.data() + kTypeAt, &number, sizeof number);
        if (fault_in(packet) == "unknown message type " + std::to_string(type)) ++unknown;
    }
    EXPECT_EQ(unknown, 0x10000 - known.size());
}

TEST(Messages, CommandsAreMessagesAndNoOthersAre) {
    std::size_t commands = 0;
    for (const Message& message : examples()) {
        const std::optional<Command> command = command_in(message);
        if (!command) continue;
        ++commands;
        EXPECT_TRUE(same(message_of(*command), message)) << type_of(message);
    }
    EXPECT_EQ(commands, std::variant_size_v<Command>);
}

// ------------------------------------------------------------------------------------------------------------------ text

TEST(Messages, TextThatIsTooLongIsCut) {
    const std::string many(1000, 'x');
    EXPECT_EQ(Text<64>(many).view(), std::string(63, 'x'));
    EXPECT_EQ(Text<64>(std::string(63, 'x')).view().size(), 63u);
    EXPECT_EQ(Text<64>("").view(), "");
    EXPECT_EQ(fault_in(encode(Sorry{Text<256>(many)})), "");
}

/// Every text field, with its place in the packet.
struct Place {
    Message message;
    std::size_t at;
    std::size_t size;
};
std::vector<Place> texts() {
    constexpr std::size_t kNameAt = offsetof(JobReference, name);
    return {{Attach{}, kBodyAt + offsetof(Attach, name), 64},
            {Sorry{}, kBodyAt + offsetof(Sorry, why), 256},
            {Run{}, kBodyAt + offsetof(Run, name), 64},
            {Run{}, kBodyAt + offsetof(Run, log), 256},
            {Run{}, kBodyAt + offsetof(Run, command), 148},
            {UntoldEnd{}, kBodyAt + offsetof(UntoldEnd, command), 148},
            {ClearHistory{}, kBodyAt + offsetof(ClearHistory, part), 256},
            {SetPolicy{}, kBodyAt + offsetof(SetPolicy, name), 32},
            {Waits{}, kBodyAt + offsetof(Waits, state), 16},
            {Waits{}, kBodyAt + offsetof(Waits, reason), 32},
            {Waits{}, kBodyAt + offsetof(Waits, behind), 64},
            {PauseJob{}, kBodyAt + offsetof(PauseJob, job) + kNameAt, 64},
            {ResumeJob{}, kBodyAt + offsetof(ResumeJob, job) + kNameAt, 64},
            {SuspendJob{}, kBodyAt + offsetof(SuspendJob, job) + kNameAt, 64},
            {PageIdleJob{}, kBodyAt + offsetof(PageIdleJob, job) + kNameAt, 64},
            {KillJob{}, kBodyAt + offsetof(KillJob, job) + kNameAt, 64},
            {SetJob{}, kBodyAt + offsetof(SetJob, job) + kNameAt, 64},
            {WaitJob{}, kBodyAt + offsetof(WaitJob, job) + kNameAt, 64}};
}

TEST(Messages, TextWithoutAnEndIsNone) {
    for (const Place& place : texts()) {
        Packet packet = encode(place.message);
        std::memset(packet.data() + place.at, 'x', place.size - 1);
        EXPECT_EQ(fault_in(packet), "") << type_of(place.message);
        std::memset(packet.data() + place.at, 'x', place.size);
        EXPECT_EQ(fault_in(packet), "text with control characters or without an end") << type_of(place.message);
    }
}

TEST(Messages, TextWithControlCharactersIsNone) {
    for (const Place& place : texts()) {
        for (unsigned c = 1; c < 256; ++c) {
            for (const std::size_t at : {std::size_t{0}, place.size / 2, place.size - 2}) {
                Packet packet = encode(place.message);
                std::memset(packet.data() + place.at, 'x', place.size - 1);
                packet[place.at + at] = static_cast<std::byte>(c);
                const bool control = c < 0x20 || c == 0x7f;
                EXPECT_EQ(decode(packet).ok(), !control) << "type " << type_of(place.message) << " character " << c;
            }
        }
    }
}

TEST(Messages, WhatIsBehindTheEndOfATextDoesNotCount) {
    Packet packet = encode(SetPolicy{Text<32>("rr")});
    packet[kBodyAt + 3] = std::byte{'\n'};
    const Result<Message> decoded = decode(packet);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(std::get<SetPolicy>(decoded.value()).name.view(), "rr");
}

// ------------------------------------------------------------------------------------------------------------- at random

TEST(Messages, OfAnyBytesDecodeTellsOrKeepsThem) {
    const std::vector<Message> all = examples();
    Random random(1);
    std::size_t decoded_ones = 0;
    for (int i = 0; i < 20'000; ++i) {
        Packet packet = encode(all[random.below(all.size())]);
        const std::uint64_t flips = random.below(20);
        const std::size_t from = random.chance(0.2) ? 0 : kBodyAt;
        for (std::uint64_t flip = 0; flip < flips; ++flip) {
            packet[from + random.below(kMessageSize - from)] = static_cast<std::byte>(random.next());
        }
        const Result<Message> decoded = decode(packet);
        if (!decoded) {
            EXPECT_FALSE(decoded.error().empty());
            EXPECT_EQ(decoded.error().find('\n'), std::string::npos);
            continue;
        }
        ++decoded_ones;
        const Result<Message> again = decode(encode(decoded.value()));
        ASSERT_TRUE(again.ok());
        // A weight may be NaN, which does not equal itself.
        if (const auto* attach = std::get_if<Attach>(&decoded.value());
            attach && (attach->weight != attach->weight || attach->occupancy != attach->occupancy)) {
            continue;
        }
        if (const auto* set = std::get_if<SetJob>(&decoded.value()); set && set->weight != set->weight) continue;
        ASSERT_TRUE(same(decoded.value(), again.value()));
    }
    EXPECT_GT(decoded_ones, 5000u);
}

}  // namespace
}  // namespace salus::wire
