// The messages between clients, command line and service.
//
// Sockets are SOCK_SEQPACKET. Each packet is one message of kMessageSize bytes: a header, one of the structs below, then
// zeros. A message carries descriptors where its struct says so. This file defines the protocol; docs/protocol.md explains
// it.
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
inline constexpr std::uint16_t kVersion = 8;
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

/// The first message of a client. Descriptors: the control page, and the socket by which the client notifies the service.
struct Attach {
    static constexpr std::uint16_t kType = 1;
    enum Flag : std::uint32_t {
        kUnpageable = 1,   ///< several threads use the device
        kProfiled = 2,     ///< P and T are known (the client attaches again after the service was gone)
        kResident = 4,     ///< its P is on the device
        kInteractive = 8,  ///< its class; else batch
        kClassSaid = 16,   ///< ... by its user; else it was found, or is not known yet
    };
    std::uint32_t flags = 0;
    std::uint32_t job = 0;  ///< the number from `salus run`; 0: started without it
    std::int32_t priority = 0;
    std::uint32_t crew = 0;  ///< as by JoinCrew; 0: none
    double weight = 1;
    double occupancy = 1;
    std::uint64_t iterations_total = 0;
    std::uint64_t iteration_time_ns = 0;
    std::uint64_t persistent = 0;
    std::uint64_t ephemeral = 0;
    std::uint64_t left = 0;           ///< if its P is paged out: the part of it that is on the device
    std::uint32_t stays_because = 0;  ///< if kUnpageable: a StayReason
    Text<64> name;
    Text<64> gpu;  ///< the one that the process uses, or will, as CUDA_VISIBLE_DEVICES names it; empty: it does not know
};
struct Acknowledge {
    static constexpr std::uint16_t kType = 2;
    std::uint32_t lane = 0;
    std::uint32_t version = 0;
};
struct PagedOut {
    static constexpr std::uint16_t kType = 3;
    std::uint64_t left = 0;   ///< private memory that is still on the device
    std::uint64_t moved = 0;  ///< bytes, ...
    std::uint64_t ns = 0;     ///< ... and how long that took; 0: not measured
};
struct PagedIn {
    static constexpr std::uint16_t kType = 4;
    std::uint64_t moved = 0;
    std::uint64_t ns = 0;
};
/// Answers PageOut, or is sent unasked.
struct Unpageable {
    static constexpr std::uint16_t kType = 5;
    std::uint16_t for_good = 0;  ///< 0: only until it next wants to run
    std::uint16_t because = 0;   ///< a StayReason
};
struct Observe {
    static constexpr std::uint16_t kType = 6;
    std::uint64_t persistent = 0;
};
struct Need {
    static constexpr std::uint16_t kType = 7;
    std::uint64_t number = 0;  ///< counts this client's needs; the answer carries the same number
    std::uint64_t persistent = 0;
    std::uint64_t ephemeral = 0;
};
struct Leave {
    static constexpr std::uint16_t kType = 8;
};
/// The client's class, as its behaviour shows it.
struct Class {
    static constexpr std::uint16_t kType = 9;
    std::uint16_t interactive = 0;
    std::uint16_t reason = 0;  ///< a ClassReason
};
/// The client takes turns together with the other clients of its user that say the same number: its job's. It has no T.
struct JoinCrew {
    static constexpr std::uint16_t kType = 10;
    std::uint32_t crew = 0;
};

// ------------------------------------------------------------------------------------------------- service to client

struct Welcome {
    static constexpr std::uint16_t kType = 20;
    std::uint32_t client = 0;
    std::uint64_t capacity = 0;
    Text<16> device;             ///< "host", "cuda"
    Text<64> gpu;                ///< its UUID
    std::uint32_t pages = 0;     ///< 1: the client's memory is paged out, if it can be
    Text<256> page_directory{};  ///< for what memory cannot hold; empty: the client chooses
};
/// The service refuses the connection and closes it.
struct Sorry {
    static constexpr std::uint16_t kType = 21;
    Text<256> why;
    /// 1: of `salus run`: its command must not start without sharing either. 2: the answer stays the same if it asks again.
    std::uint32_t users_mistake = 0;
};
/// Descriptors: the next pieces of the lane's memory. If `first` is 0, the lane has new memory: release the old pieces. Such
/// a message may carry no piece yet.
struct LanePieces {
    static constexpr std::uint16_t kType = 30;
    std::uint32_t lane = 0;
    std::uint32_t first = 0;
};
/// Map the lane at this size. LanePieces has brought its pieces before.
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
/// The control word says revoked: wait until the device's work has ended, then acknowledge in the word.
struct Revoke {
    static constexpr std::uint16_t kType = 24;
};
/// Answers Need.
struct NeedAnswer {
    static constexpr std::uint16_t kType = 25;
    std::uint64_t need = 0;        ///< the need's number
    std::uint32_t given = 0;       ///< 0: denied
    std::uint64_t persistent = 0;  ///< if given: the total private memory that the client may use
    // If denied for want of memory, for the user; all zero: for another reason.
    std::uint64_t more = 0;          ///< what did not fit
    std::uint64_t capacity = 0;      ///< the memory for jobs
    std::uint64_t others_hold = 0;   ///< the other jobs together
    std::uint64_t holder_holds = 0;  ///< ... and the one that holds most of it
    std::uint32_t holder_job = 0;
    Text<64> holder{};  ///< its name; empty if it is another user's
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
/// Put gates into the streams from now on, or mark requests and signal each, or neither: Note [Gates] in gate_page.h.
struct Arm {
    static constexpr std::uint16_t kType = 32;
    std::uint16_t gates = 0;
    std::uint16_t requests = 0;
};
/// The client could never fit on the device: its begin() fails from now on.
struct Refuse {
    static constexpr std::uint16_t kType = 29;
    std::uint64_t need = 0;
    std::uint64_t capacity = 0;
};

// ------------------------------------------------------------------------------------------------------ command line

/// Announces a job: `salus run` for the command that it starts, or a process for itself. The connection lasts as long as the
/// job. A process that announces itself attaches over the same connection.
struct Run {
    static constexpr std::uint16_t kType = 40;
    std::uint32_t job = 0;  ///< 0: assign a number; else the number that the last service assigned
    Text<64> name;
    Text<256> log;                  ///< path, if detached
    std::uint8_t runs = 0;          ///< 1: its process has started
    std::uint8_t waited = 0;        ///< 1: it waited for Start when the last service went away
    std::uint16_t joins = 0;        ///< 1: the sender is the job's process itself
    std::uint64_t command_key = 0;  ///< base/command.h; 0: none, and the history does not record the run
    std::uint64_t program_key = 0;
    double weight = 1;  ///< as its clients will say; checked before the command starts
    std::int32_t priority = 0;
    Text<148> command;  ///< for display, cut to fit
};
/// What is known about where a job is to run. Comes before Run, if anything is. Nothing answers.
struct Wishes {
    static constexpr std::uint16_t kType = 65;
    enum By : std::uint16_t {
        kNobody = 0,
        kUser = 1,         ///< --gpu: on one of these
        kEnvironment = 2,  ///< CUDA_VISIBLE_DEVICES of the job: on these, and on no other
        kEarlier = 3,      ///< the last service placed it there, and its process has started
    };
    enum Class : std::uint16_t { kNotSaid = 0, kBatch = 1, kInteractive = 2 };
    std::uint16_t by = kNobody;
    std::uint16_t client_class = kNotSaid;
    std::uint32_t unused = 0;
    std::uint64_t persistent = 0;  ///< as its user has said; 0: not said
    std::uint64_t ephemeral = 0;
    Text<448> devices;  ///< as in CUDA_VISIBLE_DEVICES
};
struct Running {
    static constexpr std::uint16_t kType = 41;
    std::uint32_t job = 0;
    Text<16> device;
    Text<64> gpu;
    Text<128> mps;                  ///< the directory of MPS's pipes; empty: the job must not use MPS
    std::uint32_t waits = 0;        ///< 1: its process must not start before Start comes
    std::uint32_t has_several = 0;  ///< 1: it was assigned more GPUs than one, so its CUDA_VISIBLE_DEVICES stays
};
/// There is room on the device for the job's process.
struct Start {
    static constexpr std::uint16_t kType = 46;
    Text<64> gpu;   ///< as in Running: it may be another one by now; empty: it is the same
    Text<128> mps;  ///< of that GPU
};
/// The job has waited for long: to start, or for the device. A service sends this at most once of each. The texts are those
/// of the status.
struct Waits {
    static constexpr std::uint16_t kType = 45;
    Text<16> state;
    Text<32> reason;
    Text<64> behind;  ///< the name of the job that it waits for; empty: none, or unknown
    std::uint32_t behind_job = 0;
    std::uint32_t user_jobs_max = 0;    ///< the limit, if that is the reason; 0: not known
    std::uint64_t user_memory_max = 0;  ///< the same
};
/// The job is sent a signal that may end it.
struct Interrupted {
    static constexpr std::uint16_t kType = 47;
};
/// A process of the job will not share, or shares no longer. From its `salus run` or, on a connection of its own, from the
/// process; nothing answers.
struct Unshared {
    static constexpr std::uint16_t kType = 48;
    std::uint32_t job = 0;
    Text<160> why;
};
/// The command of `salus run` has ended, or the process that has joined by itself is about to. The service writes the run
/// down; then it closes the connection of `salus run`.
struct Ended {
    static constexpr std::uint16_t kType = 44;
    std::int32_t status = 0;    ///< its exit status, or 128 + the signal that ended it
    std::uint64_t took_ns = 0;  ///< the whole time; a service may have started in between and not know it
};
/// A run whose end no service was there to record (history/untold.h). Several may come on one connection; nothing answers.
struct UntoldEnd {
    static constexpr std::uint16_t kType = 49;
    std::int32_t status = 0;  ///< as in Ended
    std::uint32_t unused = 0;
    std::uint64_t took_ns = 0;
    double ended_unix_s = 0;
    std::uint64_t command_key = 0;  ///< as in Run
    std::uint64_t program_key = 0;
    Text<148> command;
};
// Commands: one or several per connection. The service answers each with Answer.

/// A job, by number or by name. A name must belong to one job only.
struct JobReference {
    std::uint32_t number = 0;  ///< 0: by name
    Text<64> name;
};
/// The answer is the status as JSON (status/status.h).
struct AskStatus {
    static constexpr std::uint16_t kType = 50;
};
/// The answer is {}, or {"note": one line for the user}.
struct SetPolicy {
    static constexpr std::uint16_t kType = 51;
    Text<32> name;
};
/// The service answers when the trace is on disk. The answer is the trace's part of the status.
struct FlushTrace {
    static constexpr std::uint16_t kType = 52;
    std::uint32_t device = 0;  ///< its place in the status
};
/// The service reads its configuration again. The answer is {"note": one line that says what has changed}.
struct ReloadService {
    static constexpr std::uint16_t kType = 63;
};
struct StopService {
    static constexpr std::uint16_t kType = 53;
    std::uint32_t even_with_jobs = 0;
};
/// The answer to this and the next five is {"job": its number, "name": ...}, and more as said there.
struct PauseJob {
    static constexpr std::uint16_t kType = 55;
    JobReference job;
};
/// Of a job that is paused or suspended.
struct ResumeJob {
    static constexpr std::uint16_t kType = 56;
    JobReference job;
};
/// The job gives up its turn, its lane and its memory on the device, until it is resumed. The answer says what becomes of
/// the memory: "goes_bytes", "stays_bytes", and "stays_because" if all of it stays.
struct SuspendJob {
    static constexpr std::uint16_t kType = 66;
    JobReference job;
};
/// What of the job idles leaves the device now. Answered as SuspendJob; "clients" counts those that idle.
struct PageIdleJob {
    static constexpr std::uint16_t kType = 67;
    JobReference job;
};
struct KillJob {
    static constexpr std::uint16_t kType = 57;
    JobReference job;
    std::uint32_t at_once = 0;  ///< 1: with SIGKILL, not SIGTERM
};
/// Only the fields that `fields` names count. wire/assignments.h reads and writes them.
struct SetJob {
    static constexpr std::uint16_t kType = 58;
    enum Field : std::uint32_t { kPriority = 1, kWeight = 2, kIterations = 4, kClass = 8 };
    JobReference job;
    std::uint32_t fields = 0;
    std::int32_t priority = 0;
    double weight = 1;
    std::uint64_t iterations = 0;  ///< 0: not known
    std::uint32_t interactive = 0;
};
/// Two answers: {"job": its number, "name": ...} at once, and its row of the status when it has ended. It may have ended
/// lately.
struct WaitJob {
    static constexpr std::uint16_t kType = 59;
    JobReference job;
};
/// The answer is the caller's part of the history, as JSON (history/records_json.h); root's is all of it.
struct AskHistory {
    static constexpr std::uint16_t kType = 60;
};
/// For those who cannot read the trace's file. Descriptor of the answer: a socket, which brings the trace in packets as the
/// caller may see it, and then its end.
struct CopyTrace {
    static constexpr std::uint16_t kType = 62;
    std::uint64_t last_bytes = 0;  ///< only the lines in this much of its end; 0: all
    std::uint32_t device = 0;      ///< its place in the status
};
/// Forgets the caller's commands that contain this text; empty: all. The answer is {"cleared": their number}.
struct ClearHistory {
    static constexpr std::uint16_t kType = 61;
    Text<256> part;
};
/// The answer is what the caller's jobs have used, as JSON (history/records_json.h); for root, everybody's.
struct AskUsage {
    static constexpr std::uint16_t kType = 64;
    double since_unix_s = 0;
};
/// Descriptor: a file with the answer, as JSON, or with one line that says why not.
struct Answer {
    static constexpr std::uint16_t kType = 43;
    std::uint32_t ok = 0;
    std::uint64_t size = 0;
};

using Message = std::variant<Attach, Acknowledge, PagedOut, PagedIn, Unpageable, Observe, Need, Leave, Class, JoinCrew,
                             Welcome, Sorry, LanePieces, MapLane, UnmapLane, Revoke, NeedAnswer, PageOut, PageIn, Hurry, Arm,
                             Refuse, Run, Wishes, Running, Start, Waits, Interrupted, Unshared, Ended, UntoldEnd, AskStatus,
                             SetPolicy, FlushTrace, ReloadService, StopService, PauseJob, ResumeJob, SuspendJob, PageIdleJob,
                             KillJob, SetJob, WaitJob, AskHistory, ClearHistory, AskUsage, CopyTrace, Answer>;

/// The messages that the service answers with Answer.
using Command = std::variant<AskStatus, SetPolicy, FlushTrace, ReloadService, StopService, PauseJob, ResumeJob, SuspendJob,
                             PageIdleJob, KillJob, SetJob, WaitJob, AskHistory, ClearHistory, AskUsage>;

Message message_of(const Command& command);
/// Nothing if the message is not a command.
std::optional<Command> command_in(const Message& message);

using Packet = std::array<std::byte, kMessageSize>;

Packet encode(const Message& message);

/// An error if the packet is not a message of this version: wrong size, magic, version or type, or text with control
/// characters or without an end. The receiver must check the numbers.
Result<Message> decode(std::span<const std::byte> packet);

/// The version that a packet claims; 0 if it is not a Salus message. Lets us tell a peer that its version differs.
std::uint16_t version_of(std::span<const std::byte> packet);

}  // namespace salus::wire
