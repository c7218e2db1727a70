// Whatever clients send and write, the service neither crashes nor fails a check, keeps its policy, leaks no descriptor,
// serves the next client, and what it recorded replays to the same decisions.
//
// A libFuzzer target; fuzz_service_driver.cpp runs it without libFuzzer. The input is a list of operations, one byte each,
// with their arguments in the bytes that follow: raw packets of any length, messages with some bytes changed, attachments
// with real descriptors, values for the control word and the page, and what a client in good order would do. The service is
// the real one, in this process, new for each input. The clients are this process and three idle ones, so that several can
// contend.
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "core/trace.h"
#include "os/clock.h"
#include "os/descriptor.h"
#include "os/descriptor_fixture.h"
#include "policies/table.h"
#include "service/client_fixture.h"
#include "service/log.h"
#include "service/server.h"

namespace {

using namespace salus;
using service::Connected;
using service::RawClient;
using service::Server;

constexpr Bytes kCapacity = gibibytes(1);
/// How often the dearer properties are looked at.
constexpr std::uint64_t kLookEvery = 8;

[[noreturn]] void fail(const std::string& why) {
    std::fprintf(stderr, "fuzz_service: %s\n", why.c_str());
    std::abort();
}

// ----------------------------------------------------------------------------------------------------------------- input

class Input {
public:
    Input(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}

    bool empty() const { return at_ == end_; }
    std::uint8_t byte() { return empty() ? std::uint8_t{0} : *at_++; }
    std::uint64_t number(int bytes) {
        std::uint64_t value = 0;
        for (int i = 0; i < bytes; ++i) value = value << 8 | byte();
        return value;
    }
    std::size_t below(std::size_t n) { return byte() % n; }
    std::string text(std::size_t size) {
        std::string text;
        while (size-- > 0 && !empty()) text += static_cast<char>(byte());
        return text;
    }

    /// An amount or a count: often one at which something changes, at times just anything.
    std::uint64_t figure() {
        constexpr std::uint64_t kEdges[] = {0,
                                            1,
                                            2,
                                            64 * 1024,
                                            std::uint64_t{1} << 20,
                                            std::uint64_t{16} << 20,
                                            std::uint64_t{100} << 20,
                                            std::uint64_t{400} << 20,
                                            std::uint64_t{600} << 20,
                                            static_cast<std::uint64_t>(kCapacity.count) - 1,
                                            static_cast<std::uint64_t>(kCapacity.count),
                                            static_cast<std::uint64_t>(kCapacity.count) + 1,
                                            std::uint64_t{1} << 50,
                                            (std::uint64_t{1} << 50) + 1,
                                            (std::uint64_t{1} << 63) - 1,
                                            std::uint64_t{1} << 63,
                                            ~std::uint64_t{0}};
        const std::uint8_t which = byte();
        if (which < 200) return kEdges[which % std::size(kEdges)];
        return number(which < 240 ? 4 : 8);
    }
    double share() {
        constexpr double kInfinity = std::numeric_limits<double>::infinity();
        constexpr double kEdges[] = {1, 1, 1, 0.5, 0.25, 2, 1e6, 1e-300, 0, -1, 1e7, kInfinity, -kInfinity, 5e-324};
        const std::uint8_t which = byte();
        if (which < 240) return kEdges[which % std::size(kEdges)];
        double value = 0;
        const std::uint64_t bits = number(8);
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }

private:
    const std::uint8_t* at_;
    const std::uint8_t* end_;
};

// --------------------------------------------------------------------------------------------------------------- service

/// What lasts from one input to the next.
struct World {
    World() {
        set_check_handler([](const std::string& message) { fail(message); });
        service::set_log_level(LogLevel::kError);
        ::signal(SIGTERM, SIG_IGN);  // a command may be to kill a job, which is us
        // In memory if possible: the service renames small files all the time, which disks are slow at.
        for (const std::filesystem::path& place :
             {std::filesystem::path("/dev/shm"), std::filesystem::temp_directory_path()}) {
            std::string name = (place / "salus-fuzz-XXXXXX").string();
            if (!directory.empty() || !::mkdtemp(name.data())) continue;
            directory = name;
        }
        if (directory.empty()) fail("no directory");
    }
    ~World() { std::filesystem::remove_all(directory); }

    std::string directory;
    std::array<service::IdleProcess, 3> processes;
    std::uint64_t inputs = 0;
};

World& world() {
    static World the_world;
    return the_world;
}

std::unique_ptr<Server> open_server() {
    service::Options options;
    options.policy = "fair";
    options.capacity = kCapacity;
    options.socket = world().directory + "/run/socket";
    options.state = world().directory + "/state";
    options.min_turn = microseconds(20);
    options.rehome_after = Duration{};
    for (const char* file : {"/roster", "/history.db"}) std::filesystem::remove(options.state + file);  // starts afresh
    auto server = Server::open(options);
    if (!server) fail(server.error());
    return std::move(server).value();
}

/// To end a process for good is the one thing a command does that a test cannot survive.
bool kills(const wire::Message& message) {
    const auto* kill = std::get_if<wire::KillJob>(&message);
    return kill && kill->at_once != 0;
}

// ------------------------------------------------------------------------------------------------------------ operations

class Round {
public:
    explicit Round(Input& input) : input_(input), server_(open_server()) {}

    void play() {
        for (int i = 0; i < 400 && !input_.empty(); ++i) operate();
        if (server_->devices().front()->shell().engine().statistics().fallbacks > 0)
            fail("a client made the policy misbehave");
    }

    /// All hang up. Whoever comes next is served, and what was recorded replays to the same decisions.
    void check_aftermath() {
        for (Peer& peer : peers_) peer.client.reset();
        for (int i = 0; i < 40; ++i) step();
        Connected connected = service::connected_pair();
        server_->adopt(std::move(connected.theirs));
        RawClient client(std::move(connected.ours));
        client.attach();
        for (int i = 0; i < 3; ++i) step();
        const wire::Received answer = client.hear();
        if (answer.kind != wire::Received::Kind::kMessage || !std::holds_alternative<wire::Welcome>(answer.message)) {
            const auto* sorry = std::get_if<wire::Sorry>(&answer.message);
            fail("the next client is not welcome" + (sorry ? ": " + std::string(sorry->why.view()) : ""));
        }
        client.say(wire::Leave{});
        for (int i = 0; i < 3; ++i) step();
        std::ostringstream trace;
        trace << std::ifstream(server_->devices().front()->journal().trace().current_path()).rdbuf();
        const auto replay = replay_trace(trace.str(), find_policy, fallback_policy());
        if (!replay) fail("the trace cannot be replayed: " + replay.error());
        if (!replay.value().difference.empty()) fail("the replay differs: " + replay.value().difference);
    }

private:
    struct Peer {
        std::unique_ptr<RawClient> client;
        std::uint32_t lane = 0;  ///< of the last request to map or unmap
        std::uint32_t version = 0;
    };

    void step() { server_->step(os::now()); }

    Peer& peer() { return peers_[current_]; }
    RawClient& client() {
        if (!peer().client) connect(/*deaf=*/false);
        return *peer().client;
    }
    /// As the process that is current. What it had before is closed.
    void connect(bool deaf) {
        Connected connected = current_ == 0 ? service::connected_pair() : world().processes[current_ - 1].connect();
        if (deaf) {  // what it is sent soon does not fit any more
            const int least = 1;
            ::setsockopt(connected.theirs.get(), SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
        }
        server_->adopt(std::move(connected.theirs));
        peer().client = std::make_unique<RawClient>(std::move(connected.ours));
    }

    void operate() {
        switch (input_.below(26)) {
            case 0: return send_raw();
            case 1: return send_mutated();
            case 2:
            case 3:
            case 4: return attach();
            case 5:
            case 6: return say();
            case 7: return write_word();
            case 8: return write_page();
            case 9: return client().notify();
            case 10: return connect(input_.byte() % 4 == 0);
            case 11: return command();
            case 12:
            case 13: current_ = input_.below(peers_.size()); return;
            case 14: return input_.byte() % 4 == 0 ? untold_end() : run();
            case 15: peer().client.reset(); return;
            case 16: return wait();
            case 17:
            case 18:
            case 19: return behave();
            case 20: return all_behave();
            case 21: return crowd();
            default: return step();
        }
    }

    void send_packet(std::span<const std::byte> packet, std::size_t descriptors) {
        const Result<wire::Message> message = wire::decode(packet);
        if (message && kills(message.value())) return;
        std::vector<int> files;
        for (std::size_t i = 0; i < descriptors; ++i)
            files.push_back(i == 0 ? client().page_file() : client().notify_file());
        iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
        msghdr header{};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        std::vector<char> control(CMSG_SPACE(files.size() * sizeof(int)));
        if (!files.empty()) {
            header.msg_control = control.data();
            header.msg_controllen = control.size();
            cmsghdr* rights = CMSG_FIRSTHDR(&header);
            rights->cmsg_level = SOL_SOCKET;
            rights->cmsg_type = SCM_RIGHTS;
            rights->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
            std::memcpy(CMSG_DATA(rights), files.data(), files.size() * sizeof(int));
        }
        static_cast<void>(::sendmsg(client().socket(), &header, MSG_NOSIGNAL | MSG_DONTWAIT));
    }

    void send_raw() {
        const std::string bytes = input_.text(input_.number(2) % 1200);
        const std::size_t descriptors = input_.below(6);
        send_packet(std::as_bytes(std::span(bytes)), descriptors);
    }

    void send_mutated() {
        constexpr auto kTypes = []<std::size_t... I>(std::index_sequence<I...>) {
            return std::array{std::variant_alternative_t<I, wire::Message>::kType...};
        }
        (std::make_index_sequence<std::variant_size_v<wire::Message>>());
        wire::Packet packet = wire::encode(wire::Leave{});
        packet[6] = static_cast<std::byte>(kTypes[input_.below(std::size(kTypes))]);
        const std::size_t changes = input_.below(16);
        for (std::size_t i = 0; i < changes; ++i) {
            const std::size_t place = input_.byte();
            packet[place < 240 ? 8 + place % 144 : place % packet.size()] = static_cast<std::byte>(input_.byte());
        }
        send_packet(packet, input_.below(4));
    }

    void attach() {
        wire::Attach attach;
        const std::uint8_t how = input_.byte();
        if (how & 1) {
            attach.flags = input_.byte();
            attach.job = input_.byte() % 4;
            attach.priority = static_cast<std::int8_t>(input_.byte());
            attach.persistent = input_.figure();
            attach.ephemeral = input_.figure();
        }
        if (how & 2) {
            attach.weight = input_.share();
            attach.occupancy = input_.share();
        }
        if (how & 4) {
            attach.iterations_total = input_.figure();
            attach.iteration_time_ns = input_.figure();
        }
        if (how & 8) attach.name = wire::Text<64>(input_.text(input_.below(70)));
        if (how < 240) {
            static_cast<void>(client().attach(attach));
            return;
        }
        attach_badly(attach);
    }

    /// With a page that is too small or not sealed, or no eventfd, or one for the other.
    void attach_badly(const wire::Attach& attach) {
        const std::size_t what = input_.below(8);
        os::Descriptor other(::memfd_create("salus-control", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        if (::ftruncate(other.get(), what & 1 ? kControlPageSize : 100) != 0) return;
        if (what & 2) ::fcntl(other.get(), F_ADD_SEALS, F_SEAL_SHRINK);
        const int files[] = {what & 4 ? client().notify_file() : other.get(), what & 4 ? other.get() : client().socket()};
        wire::send(client().socket(), attach, std::span(files).first(1 + input_.below(2)));
    }

    void say() {
        switch (input_.below(8)) {
            case 0:
                client().say(wire::Acknowledge{static_cast<std::uint32_t>(input_.figure()),
                                               static_cast<std::uint32_t>(input_.figure())});
                return;
            case 1: client().say(wire::Acknowledge{peer().lane, peer().version}); return;
            case 2: {
                const std::uint64_t left = input_.byte(), moved = input_.byte(), ns = input_.byte();
                client().say(wire::PagedOut{left << 20, moved << 24, ns << 20});
                return;
            }
            case 3: client().say(wire::PagedIn{}); return;
            case 4: client().say(wire::Unpageable{static_cast<std::uint16_t>(input_.byte() & 1), input_.byte()}); return;
            case 5: client().say(wire::Observe{input_.figure()}); return;
            case 6: client().say(wire::Need{input_.figure(), input_.figure(), input_.figure()}); return;
            default: client().say(wire::Leave{}); return;
        }
    }

    void write_word() {
        const std::uint8_t low = input_.byte();
        const std::uint8_t rest = input_.byte();
        const std::uint64_t before = client().page().word;
        if (rest < 128) client().page().word = (before & ~std::uint64_t{0xff}) | low;
        else client().page().word = low | input_.number(7) << 8;
        if (rest & 1) client().notify();
    }

    void write_page() {
        ControlPage& page = client().page();
        std::atomic<std::uint64_t>* const fields[] = {&page.iterations, &page.busy_ns,           &page.begun_ns,
                                                      &page.ended_ns,   &page.wanted_persistent, &page.wanted_ephemeral,
                                                      &page.lane_bytes};
        std::atomic<std::uint64_t>& field = *fields[input_.below(std::size(fields))];
        if (input_.byte() & 1) field += input_.byte();
        else field = input_.figure();
    }

    wire::JobReference job() {
        if (input_.byte() & 1) return {input_.byte() % 4u, {}};
        return {0, wire::Text<64>(input_.text(input_.below(40)))};
    }

    wire::SetJob set_job() {
        wire::SetJob set;
        set.job = job();
        set.fields = input_.byte() % 8u;
        set.priority = static_cast<std::int32_t>(input_.figure());
        set.weight = input_.share();
        set.iterations = input_.figure();
        return set;
    }

    template <std::size_t I>
    wire::Command draw_command() {
        using T = std::variant_alternative_t<I, wire::Command>;
        if constexpr (std::is_same_v<T, wire::SetPolicy>) {
            if (input_.byte() % 8 == 0) return T{wire::Text<32>(input_.text(input_.below(40)))};
            return T{wire::Text<32>(all_policies()[input_.below(all_policies().size())]->info.name)};
        } else if constexpr (std::is_same_v<T, wire::StopService>) {
            return T{input_.byte() & 1u};
        } else if constexpr (std::is_same_v<T, wire::SetJob>) {
            return set_job();
        } else if constexpr (requires { T{}.job; }) {
            return T{job()};  // a KillJob is a gentle one
        } else {
            return T{};
        }
    }

    /// One of each kind there is, with the same odds.
    wire::Command draw_command() {
        return [this]<std::size_t... I>(std::index_sequence<I...>) {
            using Draw = wire::Command (Round::*)();
            constexpr Draw kDraws[] = {&Round::draw_command<I>...};
            return (this->*kDraws[input_.below(std::size(kDraws))])();
        }
        (std::make_index_sequence<std::variant_size_v<wire::Command>>());
    }

    void command() {
        const wire::Message message = wire::message_of(draw_command());
        // Over a connection of its own, as the command line does.
        Connected connected = service::connected_pair();
        server_->adopt(std::move(connected.theirs));
        wire::send(connected.ours.get(), message);
        step();
        wire::receive(connected.ours.get());
    }

    void untold_end() {
        wire::UntoldEnd end;
        end.status = static_cast<std::int8_t>(input_.byte());
        end.took_ns = input_.figure();
        end.ended_unix_s = static_cast<double>(input_.figure());
        end.command_key = input_.byte() % 3;
        end.command = wire::Text<148>(input_.text(input_.below(8)));
        client().say(end);
        step();
    }

    void run() {
        wire::Run run;
        run.job = input_.byte() % 4;
        run.name = wire::Text<64>(input_.text(input_.below(8)));
        run.command_key = input_.byte() % 3;
        run.program_key = input_.byte() % 2;
        run.command = wire::Text<148>(run.name.view());
        run.joins = input_.byte() % 2;
        run.runs = input_.byte() % 2;
        client().say(run);
        if (run.joins != 0 && (input_.byte() & 1)) attach();
        if (input_.byte() & 1) return;
        client().say(wire::Ended{static_cast<std::int8_t>(input_.byte() % 2), input_.figure()});
        step();
    }

    /// Long enough for the service to look whether those that hung up are gone. It takes time, so it is rare.
    void wait() {
        if (waited_ || input_.byte() > 3) return;
        waited_ = true;
        step();
        const timespec time{0, 12'000'000};
        ::nanosleep(&time, nullptr);
        step();
    }

    // ---- in good order ----

    /// Reads and answers what there is, then goes on a step or two: as a client in good order would.
    void behave() {
        for (int i = 0; i < 16; ++i) {
            const wire::Received received = client().hear();
            if (received.kind == wire::Received::Kind::kNothingNow) break;
            if (received.kind != wire::Received::Kind::kMessage) {
                peer().client.reset();
                return;
            }
            answer(received.message);
        }
        const std::size_t steps = 1 + input_.below(3);
        for (std::size_t i = 0; i < steps; ++i) go_on();
        step();
    }

    void all_behave() {
        for (current_ = 0; current_ + 1 < peers_.size(); ++current_) {
            if (peer().client) behave();
        }
        if (peer().client) behave();
    }

    /// All attach, with needs that make sense but need not fit together, and go on for a while.
    void crowd() {
        for (std::size_t i = 0; i < peers_.size(); ++i) {
            current_ = i;
            connect(/*deaf=*/false);
            wire::Attach attach;
            attach.flags = input_.byte() % 8;
            attach.persistent = (1 + input_.below(8)) * (std::uint64_t{100} << 20);
            attach.ephemeral = (1 + input_.below(8)) * (std::uint64_t{50} << 20);
            attach.priority = static_cast<std::int32_t>(i);
            client().page().wanted_persistent = attach.persistent;
            client().page().wanted_ephemeral = attach.ephemeral;
            client().attach(attach);
        }
        step();
        for (std::size_t rounds = input_.below(8); rounds > 0; --rounds) all_behave();
    }

    void answer(const wire::Message& message) {
        if (const auto* map = std::get_if<wire::MapLane>(&message)) {
            peer().lane = map->lane;
            peer().version = map->version;
            client().say(wire::Acknowledge{map->lane, map->version});
        } else if (const auto* unmap = std::get_if<wire::UnmapLane>(&message)) {
            peer().lane = unmap->lane;
            peer().version = unmap->version;
            client().say(wire::Acknowledge{unmap->lane, unmap->version});
        } else if (std::holds_alternative<wire::PageOut>(message)) {
            client().say(wire::PagedOut{});
        } else if (std::holds_alternative<wire::PageIn>(message)) {
            client().say(wire::PagedIn{});
        } else if (std::holds_alternative<wire::Revoke>(message)) {
            client().change_word([](const control::Word& word) { return control::acknowledge(word).value_or(word); });
        }
    }

    void go_on() {
        ControlPage& page = client().page();
        control::Word word = control::unpack(page.word);
        const auto at = static_cast<std::uint64_t>(os::now().ns);
        if (word.state == control::State::kRunning) {
            const auto left = control::leave(word);
            if (!left) return;
            page.word = control::pack(left->next);
            if (!left->last) return;
            page.iterations += 1;
            page.busy_ns += at - page.begun_ns;
            page.ended_ns = at;
            const control::Settle settled = control::settle(left->next, /*drained=*/(input_.byte() & 1) != 0, true);
            page.word = control::pack(settled.next);
            if (settled.notify) client().notify();
            return;
        }
        const control::Begin begun = control::begin(word);
        page.word = control::pack(begun.next);
        if (begun.entered) page.begun_ns = at;
        if (begun.notify) client().notify();
    }

    Input& input_;
    std::unique_ptr<Server> server_;
    std::array<Peer, 4> peers_;  ///< this process, and the idle ones
    std::size_t current_ = 0;
    bool waited_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const bool look = world().inputs++ % kLookEvery == 0;
    const std::size_t before = look ? os::count_open_descriptors() : 0;
    Input input(data, size);
    {
        Round round(input);
        round.play();
        if (look) round.check_aftermath();
    }
    if (look && os::count_open_descriptors() != before) {
        fail(std::to_string(os::count_open_descriptors()) + " descriptors are open, before there were " +
             std::to_string(before));
    }
    return 0;
}
