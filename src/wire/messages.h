// What travels over the socket between clients, command line and service.
//
// SOCK_SEQPACKET: one packet, one message, always kMessageSize bytes: a header and one of the structs below, the rest zero.
// Descriptors ride along where a struct says so. docs/protocol.md tells the story; this file is the truth.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace salus::wire {

inline constexpr std::uint32_t kMagic = 0x53'4c'41'53;
inline constexpr std::uint16_t kVersion = 3;
inline constexpr std::size_t kMessageSize = 512;
inline constexpr std::size_t kDescriptorsMax = 32;

/// Text of bounded length; ends at the first NUL.
template <std::size_t N>
struct Text {
    std::array<char, N> chars{};

    Text() = default;
    explicit Text(std::string_view text) { std::memcpy(chars.data(), text.data(), text.size() < N ? text.size() : N - 1); }
    std::string_view view() const { return {chars.data(), ::strnlen(chars.data(), N)}; }
};

// ------------------------------------------------------------------------------------------------- client to service

/// The first message of a client. Descriptors: the control page, the eventfd by which it notifies the service.
struct Attach {
    static constexpr std::uint16_t kType = 1;
    enum Flag : std::uint32_t {
        kUnpageable = 1,  ///< several threads use the device
        kProfiled = 2,    ///< P and T hold (a client that attaches anew after the service was gone)
        kResident = 4,    ///< its P is on the device
    };
    std::uint32_t flags = 0;
    std::uint32_t job = 0;  ///< as told by `salus run`; 0: it was started without
    std::int32_t priority = 0;
    double weight = 1;
    double occupancy = 1;
    std::uint64_t iterations_total = 0;
    std::uint64_t iteration_time_ns = 0;
    std::uint64_t persistent = 0;
    std::uint64_t ephemeral = 0;
    Text<64> name;
};
struct Acknowledge {
    static constexpr std::uint16_t kType = 2;
    std::uint32_t lane = 0;
    std::uint32_t version = 0;
};
struct PagedOut {
    static constexpr std::uint16_t kType = 3;
};
struct PagedIn {
    static constexpr std::uint16_t kType = 4;
};
/// Answers PageOut, or comes unasked.
struct Unpageable {
    static constexpr std::uint16_t kType = 5;
    std::uint32_t for_good = 0;  ///< 0: not before it next wants to run
};
struct Observe {
    static constexpr std::uint16_t kType = 6;
    std::uint64_t persistent = 0;
};
struct Need {
    static constexpr std::uint16_t kType = 7;
    std::uint64_t number = 0;  ///< of this client's needs; the answer carries it
    std::uint64_t persistent = 0;
    std::uint64_t ephemeral = 0;
};
struct Leave {
    static constexpr std::uint16_t kType = 8;
};

// ------------------------------------------------------------------------------------------------- service to client

struct Welcome {
    static constexpr std::uint16_t kType = 20;
    std::uint32_t client = 0;
    std::uint64_t capacity = 0;
    Text<16> device;  ///< "host", "cuda"
    Text<64> gpu;     ///< its UUID
};
/// Nothing comes of this connection; it is closed.
struct Sorry {
    static constexpr std::uint16_t kType = 21;
    Text<256> why;
};
/// Descriptors come along: the next pieces of the lane's memory. If `first` is 0 it is other memory than before, and that is
/// let go of; then there may be none yet.
struct LanePieces {
    static constexpr std::uint16_t kType = 30;
    std::uint32_t lane = 0;
    std::uint32_t first = 0;
};
/// Map the lane at this size. Its pieces have come before.
struct MapLane {
    static constexpr std::uint16_t kType = 22;
    std::uint32_t lane = 0;
    std::uint32_t version = 0;
    std::uint64_t size = 0;
};
struct UnmapLane {
    static constexpr std::uint16_t kType = 23;
    std::uint32_t lane = 0;
    std::uint32_t version = 0;
};
/// The control word says revoked: see the device's work end, and acknowledge in the word.
struct Revoke {
    static constexpr std::uint16_t kType = 24;
};
/// Answers Need.
struct NeedAnswer {
    static constexpr std::uint16_t kType = 25;
    std::uint64_t need = 0;        ///< its number
    std::uint32_t given = 0;       ///< 0: it is denied
    std::uint64_t persistent = 0;  ///< if given: the private memory that it may use, in all
};
struct PageOut {
    static constexpr std::uint16_t kType = 27;
};
struct PageIn {
    static constexpr std::uint16_t kType = 28;
};
/// The job was sent a signal, which its threads are to handle: launches that wait for the turn go ahead without.
struct Hurry {
    static constexpr std::uint16_t kType = 31;
};
/// It could never fit: its begin() fails from now on.
struct Refuse {
    static constexpr std::uint16_t kType = 29;
    std::uint64_t need = 0;
    std::uint64_t capacity = 0;
};

// ------------------------------------------------------------------------------------------------------ command line

/// `salus run` announces a job; the connection lasts as long as the job.
struct Run {
    static constexpr std::uint16_t kType = 40;
    std::uint32_t job = 0;  ///< 0: give it a number; else the one it had from the last service
    Text<64> name;
    Text<256> log;                  ///< path, if detached
    std::uint16_t runs = 0;         ///< 1: its process has started
    std::uint16_t waited = 0;       ///< 1: it waited for Start when the last service went away
    std::uint64_t command_key = 0;  ///< history/command.h; 0: none, and the run is not remembered
    std::uint64_t program_key = 0;
    Text<160> command;  ///< to be shown, as much of it as there is room for
};
struct Running {
    static constexpr std::uint16_t kType = 41;
    std::uint32_t job = 0;
    Text<16> device;
    Text<64> gpu;
    Text<128> mps;            ///< the directory of its pipes; empty: the job is not to use MPS
    std::uint32_t waits = 0;  ///< 1: its process is not to start before Start comes
};
/// There is room on the device for the job's process.
struct Start {
    static constexpr std::uint16_t kType = 46;
};
/// The job has waited for long; comes at most once from a service. The words are those of the status.
struct Waits {
    static constexpr std::uint16_t kType = 45;
    Text<16> state;
    Text<32> reason;
    Text<64> behind;  ///< the name of the job that it waits for; empty: none, or not known
    std::uint32_t behind_job = 0;
};
/// The job is sent a signal that may end it.
struct Interrupted {
    static constexpr std::uint16_t kType = 47;
};
/// The command of `salus run` has ended. The service writes the run down, then closes the connection.
struct Ended {
    static constexpr std::uint16_t kType = 44;
    std::int32_t status = 0;    ///< its exit status, or 128 + the signal that ended it
    std::uint64_t took_ns = 0;  ///< services may have come and gone: only `salus run` has seen all of it
};
// Commands: one to a connection or several, each is answered by Answer.

/// A job, by its number or by its name, which only one job that the peer may control must have.
struct JobReference {
    std::uint32_t number = 0;  ///< 0: by name
    Text<64> name;
};
/// Answered by the status, as JSON (status/status.h).
struct AskStatus {
    static constexpr std::uint16_t kType = 50;
};
/// Answered by {}, or by {"note": one line for the user}.
struct SetPolicy {
    static constexpr std::uint16_t kType = 51;
    Text<32> name;
};
/// The trace is on disk when this is answered, by the status's part about it.
struct FlushTrace {
    static constexpr std::uint16_t kType = 52;
};
struct StopService {
    static constexpr std::uint16_t kType = 53;
    std::uint32_t even_with_jobs = 0;
};
struct PauseJob {
    static constexpr std::uint16_t kType = 55;
    JobReference job;
};
struct ResumeJob {
    static constexpr std::uint16_t kType = 56;
    JobReference job;
};
struct KillJob {
    static constexpr std::uint16_t kType = 57;
    JobReference job;
    std::uint32_t at_once = 0;  ///< by SIGKILL, not SIGTERM
};
/// Only the fields that `fields` names count. wire/assignments.h reads and writes them.
struct SetJob {
    static constexpr std::uint16_t kType = 58;
    enum Field : std::uint32_t { kPriority = 1, kWeight = 2, kIterations = 4 };
    JobReference job;
    std::uint32_t fields = 0;
    std::int32_t priority = 0;
    double weight = 1;
    std::uint64_t iterations = 0;  ///< 0: not known
};
/// A descriptor comes along: a file with the answer, JSON, or one line of why not.
struct Answer {
    static constexpr std::uint16_t kType = 43;
    std::uint32_t ok = 0;
    std::uint64_t size = 0;
};

using Message = std::variant<Attach, Acknowledge, PagedOut, PagedIn, Unpageable, Observe, Need, Leave, Welcome, Sorry,
                             LanePieces, MapLane, UnmapLane, Revoke, NeedAnswer, PageOut, PageIn, Hurry, Refuse, Run,
                             Running, Start, Waits, Interrupted, Ended, AskStatus, SetPolicy, FlushTrace, StopService,
                             PauseJob, ResumeJob, KillJob, SetJob, Answer>;

/// What the command line may ask, by itself or for its user.
using Command = std::variant<AskStatus, SetPolicy, FlushTrace, StopService, PauseJob, ResumeJob, KillJob, SetJob>;

Message message_of(const Command& command);
/// Nothing: it is no command.
std::optional<Command> command_in(const Message& message);

using Packet = std::array<std::byte, kMessageSize>;

Packet encode(const Message& message);

/// One line of why not, if it is no message of this version: wrong size, magic, version or type, or text with control
/// characters. Figures are for the receiver to judge.
Result<Message> decode(std::span<const std::byte> packet);

/// The version a packet claims, if it is one of ours at all: so that a peer of another version can be told so.
std::uint16_t version_of(std::span<const std::byte> packet);

}  // namespace salus::wire
