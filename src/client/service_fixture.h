// A service in this process that does only what a test says. Its clients are real, and so are the socket (in a folder of its
// own), the messages, the control pages and the lane memory.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "client/process_client.h"
#include "device/host/host_lane_memory.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/poll.h"
#include "os/socket.h"
#include "wire/control_page.h"
#include "wire/control_word.h"
#include "wire/framing.h"

namespace salus::client::test {

/// Nothing here takes that long; the limit only ends tests that hang.
inline constexpr Duration kPatience = seconds(30);

/// True as soon as `holds` is; false when patience ends.
template <typename Holds>
bool eventually(const Holds& holds) {
    const std::uint64_t until = os::now_ns() + static_cast<std::uint64_t>(kPatience.ns);
    while (!holds()) {
        if (os::now_ns() > until) return false;
        os::sleep_for(microseconds(200));
    }
    return true;
}

/// Whether the call ends within kPatience.
template <typename T>
bool ends(const std::future<T>& call) {
    return call.wait_for(std::chrono::nanoseconds(kPatience.ns)) == std::future_status::ready;
}

/// Changes the control word as the service does. `step`: word -> optional word; nothing if the step is not possible now.
template <typename Step>
bool change_word(ControlPage& page, const Step& step) {
    std::uint64_t seen = page.word.load();
    for (;;) {
        const std::optional<control::Word> next = step(control::unpack(seen));
        if (!next) return false;
        if (page.word.compare_exchange_weak(seen, control::pack(*next))) break;
    }
    os::wake_all(page.word);
    return true;
}

/// Grants a turn as soon as a thread waits for one.
inline bool grant(ControlPage& page) {
    return eventually([&] { return change_word(page, control::grant); });
}

/// Takes the grant back, or asks for it.
inline control::TakeBack::Outcome take_back(ControlPage& page, bool may_retract = false) {
    control::TakeBack step;
    change_word(page, [&](const control::Word& word) {
        step = control::take_back(word, may_retract);
        return std::optional(step.next);
    });
    return step.outcome;
}

/// One client as its service knows it.
class Session {
public:
    /// Receives the client's Attach.
    explicit Session(os::Descriptor socket) : socket_(std::move(socket)) {
        wire::Received first = receive();
        const auto* said = std::get_if<wire::Attach>(&first.message);
        SALUS_CHECK(said && first.descriptors[0] && first.descriptors[1], "a client attaches, with a page and a signal");
        attach = *said;
        notify_ = std::move(first.descriptors[1]);
        void* at = ::mmap(nullptr, kControlPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, first.descriptors[0].get(), 0);
        SALUS_CHECK(at != MAP_FAILED, "the page can be mapped");
        page_ = {static_cast<ControlPage*>(at), [](ControlPage* page) { ::munmap(page, kControlPageSize); }};
    }

    wire::Attach attach;

    ControlPage& page() { return *page_; }
    control::Word word() const { return control::unpack(page_->word); }

    bool say(const wire::Message& message, std::span<const int> descriptors = {}) {
        return wire::send(socket_.get(), message, descriptors);
    }
    void welcome(Bytes capacity) {
        wire::Welcome welcome;
        welcome.client = 1;
        welcome.capacity = static_cast<std::uint64_t>(capacity.count);
        welcome.device = wire::Text<16>("host");
        EXPECT_TRUE(say(welcome));
    }

    /// The next message, which must be of this type.
    template <typename Expected>
    Expected hear() {
        const wire::Received received = receive();
        const auto* message = std::get_if<Expected>(&received.message);
        if (received.kind == wire::Received::Kind::kMessage && message) return *message;
        ADD_FAILURE() << "expected a message of type " << Expected::kType << ", heard one of index "
                      << received.message.index() << ", kind " << static_cast<int>(received.kind);
        return {};
    }
    bool hears_the_end() { return receive().kind == wire::Received::Kind::kClosed; }
    bool anything_to_hear() const { return os::readable_within(socket_.get(), Duration{}); }
    /// The client has told us, since the last call, to look at the word.
    bool is_notified(Duration limit = kPatience) const {
        const bool notified = os::readable_within(notify_.get(), limit);
        os::discard_signals(notify_.get());
        return notified;
    }

    /// Grants a turn with this much room. With plenty it is a profiling turn.
    bool grant(std::uint64_t room = 0) {
        page_->allowed_private = room;
        return test::grant(*page_);
    }
    bool waits() const {
        return eventually([&] { return word().want; });
    }
    /// Waits until the client has done all that it was told so far.
    void catch_up() {
        constexpr std::uint32_t kNoLane = 999;
        EXPECT_TRUE(say(wire::UnmapLane{kNoLane, 0}));
        EXPECT_EQ(hear<wire::Acknowledge>().lane, kNoLane);
    }
    void hang_up() { socket_.reset(); }
    int socket() const { return socket_.get(); }

private:
    wire::Received receive() {
        if (!os::readable_within(socket_.get(), kPatience)) return {};
        return wire::receive(socket_.get());
    }

    os::Descriptor socket_;
    os::Descriptor notify_;
    std::unique_ptr<ControlPage, void (*)(ControlPage*)> page_{nullptr, nullptr};
};

class ScriptedService {
public:
    ScriptedService() {
        std::string pattern = (std::filesystem::temp_directory_path() / "salus-client-test-XXXXXX").string();
        SALUS_CHECK(::mkdtemp(pattern.data()) != nullptr, "a folder");
        directory_ = pattern;
        start();
    }
    ~ScriptedService() { std::filesystem::remove_all(directory_); }
    ScriptedService(const ScriptedService&) = delete;
    ScriptedService& operator=(const ScriptedService&) = delete;

    const std::string& directory() const { return directory_; }
    std::string socket() const { return directory_ + "/socket"; }

    void start() {
        Result<os::Descriptor> listener = os::listen_at(socket(), 0600);
        SALUS_CHECK(listener, "a socket to listen at");
        listener_ = std::move(listener).value();
    }
    void stop() { listener_.reset(); }

    /// The next connection.
    os::Descriptor accept() {
        SALUS_CHECK(os::readable_within(listener_.get(), kPatience), "somebody connects");
        return os::accept_from(listener_.get());
    }
    /// Accepts and welcomes the next client, which attaches in another thread or process.
    Session admit() {
        Session session(accept());
        session.welcome(capacity);
        return session;
    }
    /// Calls `attach`, which waits for Welcome, and admits that client meanwhile.
    template <typename Attach>
    Session admit(const Attach& attach) {
        std::optional<Session> session;
        std::thread service([&] { session.emplace(admit()); });
        attach();
        service.join();
        return std::move(*session);
    }

    /// Sends a client the memory of a lane and asks it to map `size` bytes.
    void map_lane(Session& session, std::uint32_t lane, std::uint32_t version, std::uint64_t size) {
        ASSERT_TRUE(memory_->provide(LaneId{lane}, {static_cast<std::int64_t>(size)}));
        const auto pieces = memory_->pass_on(LaneId{lane}, 0, 1);
        ASSERT_TRUE(pieces);
        const int piece = pieces.value()[0].get();
        ASSERT_TRUE(session.say(wire::LanePieces{lane, 0}, {&piece, 1}));
        ASSERT_TRUE(session.say(wire::MapLane{lane, version, size}));
        EXPECT_EQ(session.hear<wire::Acknowledge>().version, version);
    }

    const Bytes capacity = mebibytes(256);

private:
    std::string directory_;
    os::Descriptor listener_;
    std::unique_ptr<device::LaneMemory> memory_ = device::make_host_lane_memory();
};

/// Sets an environment variable for its own lifetime.
class Setting {
public:
    Setting(const char* name, const std::string& value) : name_(name) {
        if (const char* before = std::getenv(name)) before_ = before;
        ::setenv(name, value.c_str(), 1);
    }
    ~Setting() {
        if (before_) ::setenv(name_, before_->c_str(), 1);
        else ::unsetenv(name_);
    }
    Setting(const Setting&) = delete;
    Setting& operator=(const Setting&) = delete;

private:
    const char* name_;
    std::optional<std::string> before_;
};

/// A client and its service. The test's own thread is the job's thread; while it waits, other threads act for the service
/// (elsewhere()).
class ClientTest : public ::testing::Test {
protected:
    ~ClientTest() override {
        if (session_) session_->hang_up();  // also ends a helper that has lost its descriptors
    }

    void attach(const wire::Attach& attach = {}) {
        client_ = std::make_unique<ProcessClient>(Identity{service_.socket(), attach});
        session_.emplace(service_.admit([&] {
            const Result<bool> attached = client_->attach();
            EXPECT_TRUE(attached.ok()) << attached.error();
        }));
    }
    template <typename Act>
    static auto elsewhere(const Act& act) {
        return std::async(std::launch::async, act);
    }

    /// Begins a turn of this thread with this much room. With plenty it is a profiling turn.
    void begin(std::uint64_t room = kPlentyOfRoom) {
        const auto granted = elsewhere([&] { return session_->grant(room); });
        ASSERT_EQ(client_->begin(), SALUS_OK);
        ASSERT_TRUE(ends(granted));
    }
    /// Ends the last iteration of a turn.
    void end_turn() {
        take_back(session_->page());
        ASSERT_EQ(client_->end(), SALUS_OK);
        ASSERT_EQ(session_->word().state, control::State::kFree);
    }
    /// Gives the client this lane and sets its T to the lane's size, so that the next turn may use it.
    void learn_the_lane(std::uint64_t size) {
        service_.map_lane(*session_, 0, 1, size);
        session_->page().wanted_ephemeral = size;
    }
    salus_counters counters() {
        salus_counters counters{};
        client_->read_counters(counters);
        return counters;
    }

    static constexpr std::uint64_t kPlentyOfRoom = std::uint64_t{1} << 40;
    static constexpr std::size_t kBlock = std::size_t{4} << 20;

    ScriptedService service_;
    std::optional<Session> session_;
    std::unique_ptr<ProcessClient> client_;  ///< destroyed first
};

}  // namespace salus::client::test
