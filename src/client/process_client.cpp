#include "client/process_client.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "base/text.h"
#include "device/device.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/patience.h"
#include "os/socket.h"
#include "os/thread.h"
#include "wire/announcing.h"

namespace salus::client {
namespace {

/// State of the calling thread. A process has one client, so it is not kept per client.
struct ThreadState {
    unsigned depth = 0;                 ///< of nested begins
    ProcessClient* gated_by = nullptr;  ///< set while it is inside an iteration that the service knows of
    unsigned known = 0;                 ///< generation of the client whose note_thread() has seen it
    std::uint64_t waits_since_ns = 0;   ///< when it first called begin(), which may have returned SALUS_WAITING since
    bool works_for_others = false;      ///< an autograd thread: threads inside iterations wait for it
    unsigned delegates = 0;             ///< it waits for such threads; nested
    int place = -1;                     ///< in the client's list of threads inside
    GateKeeper::Request request;        ///< that it answers
};
constinit thread_local ThreadState tls;  // no constructor or destructor, because every begin and end reads it

/// A thread that ends inside an iteration leaves it.
struct AtThreadEnd {
    bool is_due = false;

    ~AtThreadEnd() {
        if (!tls.gated_by) return;
        tls.depth = 1;
        tls.gated_by->end({0});
    }
};
thread_local AtThreadEnd at_thread_end;  // from the thread's first begin on

Error system_error(const char* what) { return Error{std::string(what) + ": " + std::strerror(errno)}; }

bool make_signal(os::GuardedDescriptor& end, os::GuardedDescriptor& other) {
    auto pair = os::make_signal_pair();
    if (!pair) return false;
    end = os::GuardedDescriptor(std::move(pair->first));
    other = os::GuardedDescriptor(std::move(pair->second));
    return true;
}

/// False: the descriptor is no longer ours.
bool signal_through(const os::GuardedDescriptor& end) {
    const int socket = end.get();
    return socket >= 0 && os::signal_through(socket);
}

}  // namespace

ProcessClient::ProcessClient(Identity identity)
    : identity_(std::move(identity)), generation_([] {
          static std::atomic<unsigned> clients{0};
          return ++clients;
      }()) {
    holds_ = identity_.holds;
}

ProcessClient::~ProcessClient() {
    stop();
    memory_.reset();
    if (gates_) gates_->stay_open();
    device_.reset();
    if (page_ && !(gates_ && gates_->is_in_use())) ::munmap(page_, kControlPageSize);
}

bool ProcessClient::warn(const std::string& line) {
    if (!exiting_ && !warned_.exchange(true)) std::fprintf(stderr, "salus: %s\n", line.c_str());
    return true;
}

// ----------------------------------------------------------------------------------------------------------- attaching

Result<bool> ProcessClient::make_page() {
    page_file_ = os::GuardedDescriptor(os::make_memory_file("salus-control"));
    if (!page_file_ || !make_signal(notify_, notify_seen_) || !make_signal(stop_, stop_seen_))
        return system_error("no descriptors for a control page");
    const int file = page_file_.get();
    if (::ftruncate(file, kControlPageSize) != 0) return system_error("no control page");
    // The service maps the page, too: it must not shrink under the service's mapping.
    if (!os::seal_size(file)) return system_error("no control page");
    void* at = ::mmap(nullptr, kControlPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) return system_error("no control page");
    ::madvise(at, kControlPageSize, MADV_DONTFORK);
    page_ = new (at) ControlPage;
    turns_ = std::make_unique<Turns>(*page_, [this] { notify(); });
    return true;
}

/// A connection over which the process may attach. If it is a job of its own, the service knows it by then.
Result<os::Descriptor> ProcessClient::reach_service() {
    if (identity_.announced) return std::move(identity_.announced);
    os::Service service = identity_.socket.empty() ? identity_.finder.find() : identity_.finder.find_at(identity_.socket);
    identity_.socket = service.socket;
    service_may_come_ = service.may_come;
    if (!service.connection || !identity_.announcement) return std::move(service.connection);
    if (!gpu_.empty()) {
        wire::Wishes wishes;
        wishes.by = wire::Wishes::kEarlier;
        wishes.devices = wire::Text<448>(gpu_);
        wire::send(service.connection.value().get(), wishes);
    }
    const wire::Announced announced = wire::announce(service.connection.value().get(), *identity_.announcement);
    service_may_come_ = announced.may_come;
    is_final_ = announced.is_final;
    if (!announced.running) return Error{announced.why_not};
    identity_.announcement->job = identity_.attach.job = announced.running->job;
    return std::move(service.connection);
}

/// To the Attach that was sent. To a process that has announced itself, the service may have said before that it may start.
wire::Received ProcessClient::answer_to_attach(int socket) {
    for (;;) {
        wire::Received answer = wire::receive(socket);
        const bool is_older =
            std::holds_alternative<wire::Start>(answer.message) || std::holds_alternative<wire::Waits>(answer.message);
        if (answer.kind != wire::Received::Kind::kMessage || !is_older) return answer;
    }
}

/// Connects, sends Attach and waits for Welcome.
Result<bool> ProcessClient::connect(bool again) {
    is_final_ = false;
    Result<os::Descriptor> socket = reach_service();
    if (!socket) return Error{socket.error()};
    wire::Attach attach = identity_.attach;
    if (stays_here_ || identity_.without_memory) attach.flags |= wire::Attach::kUnpageable;
    const StayReason because = identity_.without_memory ? StayReason::kOwnMemory : stays_because_.load();
    attach.stays_because = static_cast<std::uint32_t>(because);
    if (identity_.without_memory) {  // nothing to learn: it has no T
        attach.flags |= wire::Attach::kProfiled;
        attach.persistent = holds_;
        attach.ephemeral = 0;
    }
    if (memory_ && !identity_.without_memory) {
        attach.persistent = memory_->paged() ? attach.persistent : memory_->private_bytes();
        if (attach.persistent > 0 && !memory_->paged()) attach.flags |= wire::Attach::kResident;
        if (memory_->paged()) attach.left = page_->held_bytes;
    }
    attach.crew = crew_;
    std::string gpu = gpu_.empty() ? device::gpu_in_use() : gpu_;
    std::replace_if(
        gpu.begin(), gpu.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    attach.gpu = wire::Text<64>(gpu);
    if (!says_class() && class_watch_.found().interactive) attach.flags |= wire::Attach::kInteractive;
    if (again && page_->iterations > 1) {  // its profile is still valid
        attach.flags |= wire::Attach::kProfiled;
        attach.persistent = page_->wanted_persistent;
        attach.ephemeral = page_->wanted_ephemeral;
        attach.iteration_time_ns = page_->busy_ns / page_->iterations;
        const std::uint64_t done = page_->iterations;
        attach.iterations_total -= std::min(attach.iterations_total, done);
    }
    if (attach.flags & wire::Attach::kProfiled) {
        page_->wanted_persistent = attach.persistent;
        page_->wanted_ephemeral = attach.ephemeral;
    }
    const int descriptors[] = {page_file_.get(), notify_seen_.get()};
    if (descriptors[0] < 0 || descriptors[1] < 0) return Error{"this process closed the descriptors of Salus"};
    if (memory_) {  // a grant may come together with Welcome
        memory_->set_alone(false);
        lost_ = false;
    }
    wire::send(socket.value().get(), attach, descriptors);  // if this fails, the service's reason may still be readable
    const wire::Received answer = answer_to_attach(socket.value().get());
    service_may_come_ = answer.kind == wire::Received::Kind::kClosed;  // it is being restarted
    if (const auto* sorry = std::get_if<wire::Sorry>(&answer.message);
        sorry && answer.kind == wire::Received::Kind::kMessage) {
        is_final_ = sorry->users_mistake == 2;
        return Error{std::string(sorry->why.view())};
    }
    const auto* welcome = std::get_if<wire::Welcome>(&answer.message);
    if (answer.kind != wire::Received::Kind::kMessage || !welcome) {
        if (answer.other_version) return Error{"the service " + answer.why};
        return Error{"the service does not answer"};
    }
    if (!memory_) {
        const Bytes capacity{static_cast<std::int64_t>(welcome->capacity)};
        capacity_ = welcome->capacity;
        device_name_ = std::string(welcome->device.view());
        gpu_ = std::string(welcome->gpu.view());
        auto device = identity_.without_memory ? device::open_device_without_memory(device_name_, &page_->gates)
                                               : device::open_client_device(
                                                     device_name_, capacity, std::string(welcome->gpu.view()), &page_->gates,
                                                     {welcome->pages != 0, std::string(welcome->page_directory.view())});
        if (!device) return Error{device.error()};
        device_ = std::move(device).value();
        memory_ = std::make_unique<Memory>(*page_, *device_, static_cast<Provider&>(*this),
                                           device_->traits.is_host ? nullptr : identity_.limit);
        gates_.emplace(page_->gates, device_->gated_streams.get());
        const char* mispredict = std::getenv("SALUS_MISPREDICT_EVERY");
        memory_->mispredict_every(mispredict ? static_cast<std::uint64_t>(parse_number(mispredict).value_or(0)) : 0);
        if (std::getenv("SALUS_UNSAFE_REUSE")) memory_->reuse_at_once();
        if (!device_->pager && !stays_here_.exchange(true)) stays_because_ = StayReason::kOff;
    }
    os::receive_without_limit(socket.value().get());
    {
        const std::lock_guard lock(socket_mutex_);
        socket_ = os::GuardedDescriptor(std::move(socket).value());
    }
    if (const std::uint32_t crew = crew_; crew != attach.crew) send(wire::JoinCrew{crew});  // it has joined meanwhile
    ++attachments_;
    return true;
}

Result<bool> ProcessClient::attach() {
    Result<bool> made = make_page();
    if (!made) return made;
    Result<bool> connected = connect(/*again=*/false);
    // The job's `salus run` has found it; so it is being restarted, or on the way to another place.
    const Instant until = os::now() + (identity_.attach.job != 0 ? os::start_wait() : Duration{});
    while (!connected && service_may_come_ && os::now() < until) {
        os::sleep_for(milliseconds(20));
        connected = connect(/*again=*/false);
    }
    if (!connected) return connected;
    memory_->set_alone(false);
    alone_ = false;
    const auto run = [](void* self) -> void* {
        static_cast<ProcessClient*>(self)->help();
        return nullptr;
    };
    if (helper_.start(run, this)) return true;
    send(wire::Leave{});
    go_alone();
    return Error{"cannot start the helper thread"};
}

/// Launches are no reason to stay: they have nothing in a lane, and one may be stuck.
bool ProcessClient::detach() {
    if (turns_ && !alone_ && !in_child_) {
        const bool by_launches = by_launches_;
        take_turns_by_launches(false);
        const control::State state = turns_->word().state;
        const bool inside = state == control::State::kRunning || state == control::State::kBoundary;
        if (inside && !(by_launches && !has_begun_)) return false;
        if (gates_) gates_->stay_open();
        if (device_) device_->fences->drain();
        if (memory_) memory_->unmap_lane();  // another client gets the lane's memory at once
        page_in();
        send(wire::Leave{});
    }
    return true;
}

void ProcessClient::stop() {
    if (helper_.is_there()) {
        stopping_ = true;
        signal_through(stop_);
        helper_.join();
    }
    alone_ = true;  // who waits gives up
    by_launches_ = false;
    launches_.stop();
    const std::lock_guard lock(substitute_mutex_);
    substitute_.join();
}

void ProcessClient::exits() {
    if (!device_ || in_child_ || !page_) return;
    gates_->stay_open();
    take_turns_by_launches(false);  // or its watcher would call a driver that is ending
    const control::State state = turns_->word().state;
    if (state == control::State::kRunning || state == control::State::kBoundary) return;  // another thread is inside
    for (int ms = 0; ms < 50 && !device_->fences->passed(); ++ms)
        os::sleep_for(milliseconds(1));  // mostly, the last work is about to end
    if (device_->fences->passed()) page_->quiet.store(1, std::memory_order_relaxed);
    exiting_ = true;
}

std::uint64_t ProcessClient::give_back() { return memory_ && !in_child_ ? memory_->give_back() : 0; }

/// If the service's socket is full, resends the message until there is room. Observe and Leave may be lost: nobody waits for
/// an answer to them.
void ProcessClient::send(const wire::Message& message) {
    const bool may_be_lost = std::holds_alternative<wire::Observe>(message) || std::holds_alternative<wire::Leave>(message);
    do {
        const std::lock_guard lock(socket_mutex_);
        // If the service is gone, the helper will notice.
        if (!socket_ || wire::send(socket_.get(), message) || errno != EAGAIN || may_be_lost) return;
    } while (pause());
}

// Note [Descriptors that are gone]
// The job may close our descriptors (os.closerange, close_range(2)). Then this process can no longer talk to the service. It
// leaves its lane and says so on the control page, which is shared memory; the service looks there while somebody waits. The
// job continues without sharing.
void ProcessClient::notify() {
    if (!signal_through(notify_)) lose_descriptors();
}

bool ProcessClient::keeps_descriptors() {
    const std::lock_guard lock(socket_mutex_);
    const auto kept = [](const auto&... descriptors) { return (!descriptors.lost() && ...); };
    return kept(socket_, page_file_, notify_, notify_seen_, stop_, stop_seen_);
}

/// REQUIRES: no thread is inside an iteration, or the last one is just leaving with the lane clean.
void ProcessClient::lose_descriptors() {
    if (descriptors_lost_.exchange(true)) return;
    warn("this job closed the descriptors of Salus; it continues without sharing");
    failed_ = true;
    lost_ = true;
    go_alone();
    // A thread may have got the lane meanwhile. If it does not leave within a second, the lane stays mapped until the
    // process ends.
    for (int ms = 0; ms < 1000 && !turns_->withdraw(); ++ms) os::sleep_for(milliseconds(1));
    if (turns_->word().holds()) return;
    memory_->unmap_lane();
    page_->left.store(1, std::memory_order_release);
}

/// The client stays alone for good. Threads that wait continue without the service.
void ProcessClient::go_alone() {
    if (memory_) {
        memory_->set_alone(true);
        if (!page_in()) warn("memory that was paged out cannot be read back");
    }
    if (gates_) gates_->stay_open();  // the helper may be gone, and the service may not know yet
    alone_ = true;
    by_launches_ = false;
    tell_askers();
}

void ProcessClient::fail(const char* why) {
    warn(std::string("internal error: ") + why + "; this job continues without sharing");
    stop_sharing();
}

void ProcessClient::stop_sharing() {
    if (failed_.exchange(true) || !helper_.is_there()) return;
    const std::lock_guard lock(socket_mutex_);
    if (const int socket = socket_.get(); socket >= 0) os::end_receiving(socket);  // the helper does the rest
}

// ---------------------------------------------------------------------------------------------------------- iterations

/// Notices a second thread that enters iterations: see Note [Other threads] in memory_changes.cpp.
void ProcessClient::note_thread() {
    tls.known = generation_;
    at_thread_end.is_due = true;
    const int me = os::this_thread();
    int first = 0;
    if (device_thread_.compare_exchange_strong(first, me) || first == me) return;
    many_threads_ = true;
    memory_->set_threaded(true, /*move_out=*/false);  // the first may be inside
    never_page_out();
}

void ProcessClient::set_threaded(bool threaded) {
    if (in_child_ || !memory_) return;
    memory_->set_threaded(threaded || many_threads_, /*move_out=*/!many_threads_);
    if (threaded) never_page_out();
}

/// From here on, the memory may be in use even while a thread waits in begin().
void ProcessClient::never_page_out(StayReason because) {
    if (in_child_ || stays_here_.exchange(true)) return;
    stays_because_ = because;
    const std::lock_guard lock(paging_mutex_);
    if (!alone_) send(wire::Unpageable{1, static_cast<std::uint16_t>(because)});
}

/// Where the device lacks memory for what is to come back, somebody is about to release it. There is no going on without.
bool ProcessClient::page_in(Memory::PageMove* move) {
    constexpr Duration kPause = milliseconds(10);
    constexpr std::uint64_t kTellAfterNs = 10'000'000'000;
    if (!memory_) return true;
    const std::uint64_t since = os::now_ns();
    for (bool told = false; !memory_->page_in(move); os::sleep_for(kPause)) {
        if (!device_->pager || !device_->pager->lacks_memory() || failed_ || exiting_) return false;
        if (!told && os::now_ns() - since > kTellAfterNs)
            told = warn("waits until the GPU has memory again for what was paged out");
    }
    return true;
}

void ProcessClient::delegate(bool delegates) {
    if (!tls.gated_by || (!delegates && tls.delegates == 0)) return;
    const unsigned before = delegates ? tls.delegates++ : tls.delegates--;
    if (before + (delegates ? 1 : 0) == 1) delegating_.fetch_add(delegates ? 1 : -1, std::memory_order_relaxed);
}

salus_status ProcessClient::begin_once(std::uint64_t at_most_ns, std::uint64_t kind, bool join) {
    if (tls.depth > 0) return SALUS_OK;
    const salus_status status = begin(at_most_ns, kind, join);
    if (status == SALUS_OK) delegate(true);
    return status;
}

salus_status ProcessClient::begin(std::uint64_t at_most_ns, std::uint64_t kind, bool join) {
    if (in_child_ || tls.depth++ > 0) return SALUS_OK;
    if (alone_.load(std::memory_order_relaxed)) return SALUS_OK;
    const salus_status status = begin_outermost(at_most_ns, kind, join);
    if (status != SALUS_OK) --tls.depth;
    return status;
}

salus_status ProcessClient::begin_outermost(std::uint64_t at_most_ns, std::uint64_t kind, bool join) {
    if (tls.known != generation_) note_thread();
    if (refused_) return SALUS_TOO_LARGE;
    if (!has_begun_.load(std::memory_order_relaxed)) [[unlikely]] {
        has_begun_ = true;
        take_turns_by_launches(false);  // it shows its iterations
    }
    if (class_watch_.watches()) {
        const control::State state = turns_->word().state;
        class_watch_.call_begins(state == control::State::kIdle || state == control::State::kFree);
    }
    // Most begins still have the grant, and need no lock.
    const std::optional<Turns::Entry> at_once = turns_->try_begin();
    const Turns::Entry entry = at_once ? *at_once : wait_to_begin(at_most_ns, join);
    if (entry == Turns::Entry::kWaiting) return SALUS_WAITING;
    tls.waits_since_ns = 0;
    if (entry == Turns::Entry::kGivenUp) {
        // Whoever is told that there is no room may go on without, and needs what is there already.
        if (memory_->is_away() && !memory_->page_in()) warn("the GPU has no room for what was paged out");
        return refused_ ? SALUS_TOO_LARGE : SALUS_OK;
    }
    tls.gated_by = this;
    if (many_threads_.load(std::memory_order_relaxed)) tls.place = threads_inside_.enter();
    memory_->iteration_begins(kind);
    if (entry == Turns::Entry::kNewTurn) {
        if (!page_in()) fail("memory that was paged out cannot be read back");
        memory_->turn_begins();
    }
    if ((tls.request = gates_->request_begins())) notify();
    return SALUS_OK;
}

Turns::Entry ProcessClient::wait_to_begin(std::uint64_t at_most_ns, bool join) {
    set_parked(true);
    if (tls.waits_since_ns == 0) tls.waits_since_ns = os::now_ns();
    // The first thread may be inside without being listed, unless it is the one that waits here.
    const int first = device_thread_;
    ThreadsInside::Watch watch(threads_inside_, first == os::this_thread() ? 0 : first);
    const auto give_up = [this] { return alone_ || refused_; };
    const auto insists = [&] { return join || may_insist(watch); };
    for (;;) {
        const Turns::Entry entry = turns_->begin({give_up, insists}, at_most_ns, tls.waits_since_ns);
        set_parked(false);
        // A thread that comes out to handle a signal may use its memory: where that must not be touched, it stays in here.
        if (entry != Turns::Entry::kWaiting || !memory_->is_away()) return entry;
        set_parked(true);
        at_most_ns = Turns::kForEver;
    }
}

/// Threads that sleep inside iterations could let each other in forever. So this ends when they have slept for kRestMostNs
/// since the last boundary, and in any case after kInsistForNs. While one of those that were let in computes, the others
/// must not run out of time: all of them may have to meet.
bool ProcessClient::may_insist(ThreadsInside::Watch& watch) {
    constexpr std::uint64_t kRestMostNs = 500'000'000, kInsistForNs = 5'000'000'000;
    constexpr std::uint64_t kBetweenLooksNs = 2'000'000;  // threads that wait look each millisecond
    const bool rest = watch.rest();
    const std::lock_guard lock(insist_mutex_);
    const std::uint64_t now = os::now_ns();
    if (std::exchange(insists_boundary_, boundaries_.load()) != boundaries_) {
        insists_since_ns_ = now;
        rested_ns_ = 0;
    } else if (rest) {
        rested_ns_ += std::min(now - looked_ns_, kBetweenLooksNs);
    }
    looked_ns_ = now;
    return rest && rested_ns_ < kRestMostNs && now - insists_since_ns_ < kInsistForNs;
}

/// The boundary. Throws nothing, because the word must be settled afterwards.
bool ProcessClient::tidy(Memory::Survivors survivors) {
    boundaries_.store(boundaries_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // nobody else writes it
    try {
        const bool clean = memory_->boundary(survivors);
        if (identity_.without_memory) state_holdings();
        return clean || identity_.without_memory;  // it has nothing in a lane
    } catch (const std::exception& error) {
        fail(error.what());
        return false;
    }
}

/// Waits for the device before the lane changes hands, and updates the cost of a turn on the page.
void ProcessClient::drain() {
    if (by_launches_) return wait_for_rest();
    device_->fences->drain();
    const std::optional<std::uint64_t> lost = device_->fences->ns_lost();
    if (!lost) return;
    const std::uint64_t before = page_->turn_cost_ns.load(std::memory_order_relaxed);
    page_->turn_cost_ns.store(before == 0 ? *lost : before - before / 8 + *lost / 8, std::memory_order_relaxed);
}

/// At the end of a turn by launches. Not for ever: what is in flight may wait for what the program does after this launch. A
/// client that takes turns by launches has nothing in a lane, so that the next one only shares time with what is left.
void ProcessClient::wait_for_rest() {
    constexpr std::uint64_t kPatienceNs = 1'000'000'000;
    const KeepGateOpen open(&page_->gates);
    const std::uint64_t until = os::now_ns() + kPatienceNs;
    for (Duration pause = microseconds(20); !exiting_ && !memory_->launches_at_rest() && os::now_ns() < until;) {
        os::sleep_for(pause);
        pause = std::min(pause * 2, microseconds(500));
    }
}

void ProcessClient::set_parked(bool parked) {
    const std::lock_guard lock(paging_mutex_);
    parked_ = parked;
}

/// The request to run remains in the word, and the service will grant it. So a substitute thread takes that grant and gives
/// it back.
void ProcessClient::forgo() {
    tls.waits_since_ns = 0;
    if (in_child_ || alone_) return;
    if (tls.depth > 0) return static_cast<void>(end({0}));
    const control::Word word = turns_->word();
    if (!word.want && word.state != control::State::kGranted) return;
    never_page_out();
    const std::lock_guard lock(substitute_mutex_);
    if (substitute_waits_.exchange(true)) return;  // there is one already
    substitute_.join();
    const auto wait_instead = [](void* self) -> void* {
        static_cast<ProcessClient*>(self)->wait_instead();
        return nullptr;
    };
    if (!substitute_.start(wait_instead, this)) substitute_waits_ = false;
}

/// Takes the grant that the word asks for, and gives it back.
void ProcessClient::wait_instead() {
    const Turns::Entry entry = turns_->begin({[this] { return alone_ || refused_; }});
    if (entry == Turns::Entry::kNewTurn) {
        if (!page_in()) fail("memory that was paged out cannot be read back");
        memory_->turn_begins();
    }
    if (entry != Turns::Entry::kGivenUp) leave_without_thread();
    substitute_waits_ = false;
}

void ProcessClient::count(std::uint64_t iterations) {
    if (page_ && !in_child_) page_->iterations.fetch_add(iterations, std::memory_order_release);
}

salus_status ProcessClient::end(Turns::Count count, Work work) {
    if (in_child_) return SALUS_OK;
    if (tls.depth == 0) return SALUS_MISUSE;
    if (--tls.depth > 0) return SALUS_OK;
    if (!tls.gated_by) return SALUS_OK;
    if (tls.delegates > 0) {
        tls.delegates = 1;
        delegate(false);
    }
    if (tls.place >= 0) threads_inside_.leave(std::exchange(tls.place, -1));
    tls.gated_by = nullptr;
    if (tls.request) gates_->request_ends(*std::exchange(tls.request, std::nullopt));
    const bool inside = turns_->end(
        device_->traits.asynchronous, count, [this] { return tidy(Memory::Survivors::kMoveOut); }, [this] { drain(); });
    if (work != Work::kOther && !says_class()) watch_class(work);
    return inside ? SALUS_OK : SALUS_MISUSE;
}

void ProcessClient::watch_class(Work work) {
    const std::optional<ClientClass> news = work == Work::kTraining ? class_watch_.trained() : class_watch_.answered();
    if (!news || alone_) return;
    send(wire::Class{static_cast<std::uint16_t>(news->interactive), static_cast<std::uint16_t>(news->reason)});
}

// ------------------------------------------------------------------------------------------------------------ launches

void ProcessClient::take_turns_by_launches(bool on) {
    if (by_launches_.exchange(on) && !on) launches_.stop();
}

bool ProcessClient::join_crew() {
    const std::uint32_t crew = identity_.attach.job;
    if (crew == 0 || !identity_.without_memory) return false;
    if (crew_.exchange(crew) == 0) send(wire::JoinCrew{crew});
    return true;
}

void ProcessClient::stream_ends(device::Stream stream) {
    if (in_child_) return;
    if (gates_) gates_->stream_ends(stream);
    if (!by_launches_) return;
    memory_->stream_ends(stream);
    if (device_->pace) device_->pace->forget(stream);
}

void ProcessClient::context_ended() {
    if (!in_child_ && gates_) gates_->context_ended();
}

// Note [Signals while a launch waits]
// A thread that waits inside a call of the driver cannot handle a signal as its program would: Python's handlers run between
// bytecodes, perhaps in another thread, which waits for this launch. So a launch goes ahead without its turn soon after a
// signal was caught by the thread that waits, or after the service has told that the job was sent one (wire::Hurry). A
// client whose launches take turns has nothing in a lane: to go ahead is safe, and unfair for a moment.
LaunchTurns::Entered ProcessClient::enter_iteration() {
    constexpr std::uint64_t kPatienceNs = 1'000'000'000;
    if (in_child_) return Entered::kWithout;
    std::uint64_t go_ahead_at = Turns::kForEver;
    for (;;) {
        const std::uint64_t now = os::now_ns();
        const auto goes_ahead = [&] {
            return alone_ || refused_ || !by_launches_ || os::now_ns() < hurries_until_ns_.load(std::memory_order_relaxed);
        };
        if (goes_ahead() || now >= go_ahead_at) break;
        const Turns::Entry entry = turns_->begin({goes_ahead}, go_ahead_at - now);
        if (entry == Turns::Entry::kWaiting) go_ahead_at = std::min(go_ahead_at, os::now_ns() + kPatienceNs);
        if (entry == Turns::Entry::kNewTurn) memory_->turn_begins();
        if (entry == Turns::Entry::kNewTurn && device_->pace) device_->pace->restart();
        if (entry != Turns::Entry::kNewTurn && entry != Turns::Entry::kJoined) continue;
        request_by_launches(+1);
        return Entered::kYes;
    }
    forgo();
    return Entered::kWithout;
}

void ProcessClient::leave_iteration() {
    leave_without_thread();
    request_by_launches(-1);
}

/// To whoever waits for an answer, a stretch of launches is a request. Threads may enter at once; all but one leave again.
void ProcessClient::request_by_launches(int entries) {
    const std::lock_guard lock(launches_request_mutex_);
    launches_entries_ += entries;
    if (launches_entries_ == 0 && launches_request_)
        gates_->request_is_done(*std::exchange(launches_request_, std::nullopt));
    else if (launches_entries_ > 0 && !launches_request_ && (launches_request_ = gates_->request_begins())) notify();
}

/// Ends a turn in which no iteration was counted: only the adaptor knows what one is.
void ProcessClient::leave_without_thread() {
    turns_->end(
        device_->traits.asynchronous, {.iterations = 0}, [this] { return tidy(Memory::Survivors::kStay); },
        [this] { drain(); });
}

void ProcessClient::holds(std::uint64_t bytes) {
    constexpr std::uint64_t kWorthTelling = std::uint64_t{16} << 20;
    holds_ = bytes;
    if (!identity_.without_memory || in_child_ || alone_) return;
    state_holdings();
    std::uint64_t told = held_told_;
    if (bytes < told + kWorthTelling || !held_told_.compare_exchange_strong(told, bytes)) return;
    observe(bytes);
}

/// What Memory would put on the page, for memory that it does not manage.
void ProcessClient::state_holdings() {
    const std::uint64_t bytes = holds_;
    page_->held_bytes.store(bytes, std::memory_order_relaxed);
    page_->private_bytes.store(bytes, std::memory_order_relaxed);
    page_->wanted_persistent.store(bytes, std::memory_order_relaxed);
    page_->wanted_ephemeral.store(0, std::memory_order_relaxed);
}

std::optional<ProcessClient::Room> ProcessClient::room() const {
    if (in_child_ || alone_ || capacity_ == 0) return std::nullopt;
    return Room{capacity_, page_->others_hold.load(std::memory_order_relaxed)};
}

// -------------------------------------------------------------------------------------------------------------- memory

void* ProcessClient::allocate(std::size_t size, Kind kind) {
    if (memory_ && !in_child_) return memory_->allocate(size, kind, tls.gated_by != nullptr);
    void* block = nullptr;
    return ::posix_memalign(&block, 64, size > 0 ? size : 1) == 0 ? block : nullptr;
}

std::optional<void*> ProcessClient::allocate_for(std::size_t size) {
    if (!memory_ || in_child_) return std::nullopt;
    void* block = memory_->allocate(size, Kind::kAuto, tls.gated_by != nullptr);
    if (!block && alone_) return std::nullopt;  // alone, the device's size is no limit
    return block;
}

std::optional<void*> ProcessClient::allocate_on(device::Stream stream, std::size_t size, bool on_behalf) {
    if (!memory_ || in_child_) return std::nullopt;
    if (on_behalf) tls.works_for_others = true;
    const bool inside = tls.gated_by || (on_behalf && delegating_.load(std::memory_order_relaxed) > 0);
    return memory_->allocate_on(stream, size, inside);
}

void ProcessClient::used_on(const void* block, device::Stream stream) {
    if (memory_ && !in_child_) memory_->used_on(block, stream);
}

void ProcessClient::wait_for_stream(device::Stream stream) {
    if (memory_ && !in_child_) memory_->wait_for_stream(stream);
}

std::array<const std::byte*, 2> ProcessClient::windows() const { return {device_->lane->start(), device_->own->start()}; }

void ProcessClient::free(void* block) {
    if (memory_ && !in_child_) return memory_->free(block, tls.gated_by || tls.works_for_others);
    if (memory_ && memory_->owns(block)) return;  // the parent's
    ::free(block);
}

bool ProcessClient::in_lane(const void* block) { return memory_ && !in_child_ && memory_->in_lane(block); }

bool ProcessClient::ask(Needs all) {
    const std::lock_guard turn(ask_turn_mutex_);
    if (std::exchange(given_before_, boundaries_.load()) != boundaries_) given_ = {};
    // Another thread may have been given more meanwhile. Asking for less would give that back.
    all.persistent = std::max(all.persistent, given_.persistent);
    if (all.ephemeral > 0) all.ephemeral = std::max(all.ephemeral, given_.ephemeral);
    std::unique_lock lock(ask_mutex_);
    if (alone_) return false;
    const std::uint32_t attachment = attachments_;
    const wire::Need need = asking_.ask(all.persistent, all.ephemeral);
    lock.unlock();
    send(need);
    lock.lock();
    // The answer comes first, the larger lane after it.
    using Outcome = attachment::Asking::Outcome;
    const auto nobody_answers = [&] { return lost_ || attachments_ != attachment; };  // a new service knows of no need
    const auto complete = [&] {
        if (alone_ || nobody_answers() || asking_.outcome() == Outcome::kDenied) return true;
        return asking_.outcome() == Outcome::kGiven && (all.ephemeral == 0 || memory_->mapped() >= all.ephemeral);
    };
    while (!answered_.wait_for(lock, std::chrono::seconds(1), complete)) {
        if (keeps_descriptors()) continue;
        memory_->set_alone(true);  // no answer will come
        lost_ = true;
    }
    if (nobody_answers()) return true;  // the iteration must be finished
    if (asking_.outcome() != Outcome::kGiven) return false;
    given_ = all;
    return true;
}

bool ProcessClient::wait_for_device(unsigned times) {
    // As long as the service lets a request wait. It looks at what its clients use several times meanwhile.
    constexpr Duration kPatience = seconds(10);
    constexpr Duration kPause = milliseconds(20);
    if (alone_ || lost_ || kPause * times >= kPatience) return false;
    os::sleep_for(kPause);
    return true;
}

void ProcessClient::observe(std::uint64_t persistent) { send(wire::Observe{persistent}); }

void ProcessClient::read_counters(salus_counters& counters) {
    if (page_ && !in_child_) {
        counters.iterations = page_->iterations;
        counters.busy_ns = page_->busy_ns;
        counters.turns = turns_->turns();
        counters.waited_ns = turns_->waited_ns();
        counters.lane_bytes = page_->lane_bytes;
        counters.missed_bytes = page_->missed_bytes;
        counters.lane_peak = page_->lane_peak;
        counters.private_bytes = page_->private_bytes;
        counters.evacuations = page_->evacuations;
        counters.evacuated_bytes = page_->evacuated_bytes;
        counters.page_outs = page_->page_outs;
    }
    counters.attachments = attachments_;
    counters.shared = alone_ || in_child_ ? 0 : 1;
}

// ---------------------------------------------------------------------------------------------------------------- fork

void ProcessClient::before_fork() {
    if (memory_ && !in_child_) memory_->before_fork();
}

void ProcessClient::after_fork_in_parent() {
    if (memory_ && !in_child_) memory_->after_fork_in_parent();
}

/// The child is not a client: it has no helper, no lane and, from here on, none of our descriptors.
void ProcessClient::after_fork_in_child() {
    if (in_child_) return;
    if (memory_) memory_->after_fork_in_child();
    helper_.forget();
    launches_.forget();
    substitute_.forget();
    substitute_waits_ = false;
    std::construct_at(&answered_);  // its destructor would wait for a thread of the parent that waited on it
    std::construct_at(&substitute_mutex_);
    in_child_ = true;
    alone_ = true;
    // The page is not inherited. What is destroyed later may still keep the gate open: it finds an empty page there.
    if (page_) {
        ::mmap(page_, kControlPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    }
    page_ = nullptr;
    socket_.reset();
    page_file_.reset();
    notify_.reset();
    notify_seen_.reset();
    stop_.reset();
    stop_seen_.reset();
    tls = ThreadState{};
}

}  // namespace salus::client
