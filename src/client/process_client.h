// One process's attachment to the service: connects turns and memory to the socket, with the helper thread that answers it.
//
// Threads: the job's threads call begin, end, allocate and free; the helper answers the service. Data of both is atomic or
// guarded by a lock. Lifetime: until salus_detach, or longer if a launch is under
// way then (Note [Who uses the client] in use_marks.h). If the process just ends, so does the helper, and the service
// notices.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "attachment/asking.h"
#include "attachment/requests.h"
#include "base/result.h"
#include "client/class_watch.h"
#include "client/gate_keeper.h"
#include "client/launches.h"
#include "client/memory.h"
#include "client/own_thread.h"
#include "client/threads_inside.h"
#include "client/turns.h"
#include "device/device.h"
#include "os/descriptor.h"
#include "os/guarded_descriptor.h"
#include "os/places.h"
#include "salus/salus.h"
#include "wire/framing.h"
#include "wire/messages.h"

namespace salus::client {

/// What the client says about itself when it attaches.
struct Identity {
    std::string socket;  ///< empty: by the finder, from then on the same service
    wire::Attach attach;
    bool without_memory = false;  ///< the program's memory is its own; only its launches are to take turns
    std::uint64_t holds = 0;      ///< ... and it has so much by now
    Limit* limit = nullptr;       ///< of GPU memory; must outlive the client
    os::ServiceFinder finder{};
    /// Of a process that is a job of its own (client/joining.h), for the next service; and its connection to this one.
    std::optional<wire::Run> announcement{};
    os::Descriptor announced{};
};

/// What a thread has done in an iteration.
enum class Work : std::uint8_t { kOther, kTraining, kAnswer };

class ProcessClient : public Provider, private LaunchTurns {
public:
    explicit ProcessClient(Identity identity);
    ~ProcessClient() override;
    ProcessClient(const ProcessClient&) = delete;
    ProcessClient& operator=(const ProcessClient&) = delete;

    /// Attaches and starts the helper. If this fails, the client works on its own.
    Result<bool> attach();

    /// SALUS_WAITING after `at_most_ns` or a signal. `join`: a thread that is inside waits for this thread.
    salus_status begin(std::uint64_t at_most_ns = Turns::kForEver, std::uint64_t kind = 0, bool join = false);
    /// As begin(), but does not nest: it does nothing for a thread that is inside.
    salus_status begin_once(std::uint64_t at_most_ns, std::uint64_t kind, bool join = false);
    salus_status end(Turns::Count count = {}, Work work = Work::kOther);
    /// The program has fetched data for its next iterations.
    void fetched() { class_watch_.fetched(); }
    void count(std::uint64_t iterations);
    /// Withdraws this thread's begin, which has returned SALUS_WAITING or was interrupted. If it has entered, it leaves.
    void forgo();
    void* allocate(std::size_t size, Kind kind);
    /// In place of the process's own allocator. Nothing if that one should serve: the client has no memory, or is alone and
    /// its memory is full, or this is a child process.
    std::optional<void*> allocate_for(std::size_t size);
    /// For work on this stream. `on_behalf` of a thread that is inside an iteration, and delegates.
    std::optional<void*> allocate_on(device::Stream stream, std::size_t size, bool on_behalf);
    void used_on(const void* block, device::Stream stream);
    void wait_for_stream(device::Stream stream);
    bool owns(const void* address) const { return memory_ && memory_->owns(address); }
    Memory* memory() const { return memory_.get(); }
    /// "host", "cuda".
    const std::string& device() const { return device_name_; }
    int device_ordinal() const { return device_ ? device_->ordinal : 0; }
    void free(void* block);
    std::uint64_t give_back();

    // ---- what the shim tells (client/launches.h) ----
    /// From now on launches wait for the turn; or no longer.
    void take_turns_by_launches(bool on);
    /// From now on it takes its turns together with the other processes of its job that say so: they wait for each other on
    /// the device. False: it cannot, because it has no job, or memory in a lane.
    bool join_crew();
    bool takes_turns_by_launches() const { return by_launches_.load(std::memory_order_acquire); }
    /// Whether a thread has ever entered an iteration by itself.
    bool has_begun() const { return has_begun_.load(std::memory_order_relaxed); }
    /// Before each launch, also of a process that takes no turns by launches.
    void pass_gate(device::Stream stream) {
        if (gates_ && !in_child_.load(std::memory_order_relaxed)) gates_->launch(stream);
    }
    void launch_begins(device::Stream stream) { launches_.begin(stream); }
    void launch_ends() { launches_.end(); }
    /// It is about to be destroyed.
    void stream_ends(device::Stream stream);
    /// A context of the program is gone, and its streams with it.
    void context_ended();
    /// So much the program has taken from the driver itself.
    void holds(std::uint64_t bytes);
    /// The memory that the job may have, and what the others have; nothing without a service.
    struct Room {
        std::uint64_t capacity = 0, others_hold = 0;
    };
    std::optional<Room> room() const;

    bool in_lane(const void* block);
    void read_counters(salus_counters& counters);
    /// REQUIRES: no thread is inside an iteration.
    bool detach();
    /// Ends its threads; threads of the program that wait for a turn go on. REQUIRES: detach(), !must_stay().
    void stop();
    /// The process is about to exit normally.
    void exits();
    /// ... with this status, and it is a job of its own: for the history.
    void ends(const wire::Ended& end) { send(end); }

    /// An internal error: warns once, and leaves the service at the next boundary.
    void fail(const char* why);
    /// Leaves the service at the next boundary. Memory stays as it is.
    void stop_sharing();
    /// Whether threads that never begin use the memory as well. REQUIRES: none of them uses it yet.
    void set_threaded(bool threaded);
    /// Whether this thread, inside an iteration, waits for threads that work for it.
    void delegate(bool delegates);
    /// True if the helper cannot be told to end. Then this object must not be destroyed.
    bool must_stay() const { return helper_.is_there() && descriptors_lost_; }
    /// All blocks of this client lie in two windows of this size. Zero: there are none.
    std::size_t window_size() const { return device_ ? device_->own->size() : 0; }
    std::array<const std::byte*, 2> windows() const;

    // ---- around fork ----
    void before_fork();
    void after_fork_in_parent();
    void after_fork_in_child();

private:
    // ---- Provider ----
    bool ask(Needs all) override;
    bool wait_for_device(unsigned times) override;
    void observe(std::uint64_t persistent) override;

    // ---- LaunchTurns ----
    Entered enter_iteration() override;
    void leave_iteration() override;
    bool is_wanted_back() const override { return turns_->word().yield; }
    void wish() override { turns_->wish(); }
    void show(std::uint64_t launches) override { page_->launches.store(launches, std::memory_order_relaxed); }
    bool has_company() const override { return page_->others.load(std::memory_order_relaxed) > 0; }
    bool captures(device::Stream stream) override { return memory_->captures(stream); }
    void launches_on(device::Stream stream) override { memory_->launches_on(stream); }
    bool mark() override { return memory_->mark_launches(); }
    bool passed() override { return memory_->launches_at_rest(); }
    void keep_pace(device::Stream stream) override {
        if (device_->pace) device_->pace->keep(stream);
    }
    void state_holdings();
    void wait_instead();
    void request_by_launches(int entries);
    void leave_without_thread();

    salus_status begin_outermost(std::uint64_t at_most_ns, std::uint64_t kind, bool join);
    Turns::Entry wait_to_begin(std::uint64_t at_most_ns, bool join);
    bool may_insist(ThreadsInside::Watch& watch);
    bool says_class() const { return (identity_.attach.flags & wire::Attach::kClassSaid) != 0; }
    void watch_class(Work work);
    void set_parked(bool parked);
    bool page_in(Memory::PageMove* move = nullptr);
    void never_page_out(StayReason because = StayReason::kThreads);
    void notify();
    void wait_for_rest();
    bool keeps_descriptors();
    void lose_descriptors();
    bool tidy(Memory::Survivors survivors);
    void drain();
    Result<os::Descriptor> reach_service();
    static wire::Received answer_to_attach(int socket);
    Result<bool> connect(bool again);
    Result<bool> make_page();
    void note_thread();
    void send(const wire::Message& message);
    void go_alone();
    /// Warns once per client. Always returns true.
    bool warn(const std::string& line);

    // ---- the helper (helper.cpp) ----
    void help();
    bool handle(wire::Received received);
    void serve(const wire::Message& message, std::vector<os::Descriptor> pieces);
    attachment::Outcome perform(const attachment::Request& request, std::vector<os::Descriptor> pieces);
    void on(const wire::NeedAnswer& message);
    void explain(const wire::NeedAnswer& denial);
    void on(const wire::Refuse& message);
    bool end_attachment();
    bool reattach();
    bool pause();
    void tell_askers();
    void lose_descriptors_when_outside();

    Identity identity_;
    const unsigned generation_;  ///< counts the clients that this process has had
    os::GuardedDescriptor page_file_;
    // Pairs of connected sockets: a byte sent to the first arrives at the second.
    os::GuardedDescriptor notify_, notify_seen_;  ///< tells the service to look at the word
    os::GuardedDescriptor stop_, stop_seen_;      ///< tells the helper to end
    std::atomic<bool> descriptors_lost_{false};
    ControlPage* page_ = nullptr;
    std::unique_ptr<Turns> turns_;
    std::string device_name_ = "host";
    std::string gpu_;  ///< by the service's Welcome: it stays there
    std::unique_ptr<device::ClientDevice> device_;
    std::unique_ptr<Memory> memory_;   ///< none if the client was never attached
    std::optional<GateKeeper> gates_;  ///< as memory_
    OwnThread helper_;

    std::mutex socket_mutex_;
    os::GuardedDescriptor socket_;  ///< changes only when the helper attaches again

    // A request for memory in mid-iteration and its answer; one at a time.
    std::mutex ask_turn_mutex_;
    Needs given_;                     ///< the most that was given in this iteration; under ask_turn_mutex_
    std::uint64_t given_before_ = 0;  ///< boundaries_ in that iteration
    std::atomic<std::uint64_t> boundaries_{0};
    std::mutex ask_mutex_;
    std::condition_variable answered_;
    attachment::Asking asking_;

    std::atomic<bool> alone_{true};  ///< no turns, no lane
    std::atomic<bool> in_child_{false};
    std::atomic<bool> refused_{false};
    std::atomic<bool> failed_{false};
    std::atomic<bool> stopping_{false};
    std::atomic<bool> exiting_{false};                             ///< the driver may be gone at any moment
    std::atomic<bool> lost_{false};                                ///< the service is gone, for now
    std::atomic<int> device_thread_{0};                            ///< the first thread that entered an iteration
    std::atomic<bool> many_threads_{false};                        ///< several threads have entered iterations
    std::atomic<bool> stays_here_{false};                          ///< its memory is never paged out ...
    std::atomic<StayReason> stays_because_{StayReason::kUnknown};  ///< ... why
    std::atomic<int> delegating_{0};                               ///< the number of threads that delegate
    ThreadsInside threads_inside_;                                 ///< used once there are several threads
    std::atomic<bool> has_begun_{false};
    ClassWatch class_watch_;
    std::atomic<bool> by_launches_{false};
    std::atomic<std::uint32_t> crew_{0};              ///< 0: none
    std::atomic<std::uint64_t> hurries_until_ns_{0};  ///< the job was sent a signal, which its threads are to handle
    std::uint64_t capacity_ = 0;                      ///< of the device, by the service's Welcome
    std::atomic<std::uint64_t> holds_{0};             ///< taken from the driver by the program itself
    std::atomic<std::uint64_t> held_told_{0};
    std::mutex launches_request_mutex_;
    int launches_entries_ = 0;
    GateKeeper::Request launches_request_;
    Launches launches_{*this};
    std::mutex insist_mutex_;
    std::uint64_t insists_since_ns_ = 0;  ///< when a thread first asked (Turns::begin) since the last boundary ...
    std::uint64_t insists_boundary_ = ~std::uint64_t{0};  ///< ... and boundaries_ at that time
    std::uint64_t rested_ns_ = 0;  ///< time since then in which those inside did nothing, as of the last look
    std::uint64_t looked_ns_ = 0;
    std::mutex paging_mutex_;  ///< keeps Unpageable from being sent between a page-out and its answer
    std::mutex substitute_mutex_;
    OwnThread substitute_;  ///< waits in place of a thread that will not come back; see forgo()
    std::atomic<bool> substitute_waits_{false};
    bool parked_ = false;  ///< a thread waits in begin(); under paging_mutex_, which it needs to come out
    std::atomic<bool> warned_{false};
    bool explained_denial_ = false;  ///< used by the helper only
    std::atomic<std::uint32_t> attachments_{0};
    attachment::Requests requests_;  ///< helper only
    bool sent_away_ = false;
    bool service_may_come_ = false;  ///< why connect() has failed
    bool is_final_ = false;          ///< ... and would again
};

}  // namespace salus::client
