// The C interface of libsalus.so: the results of calls in a wrong order, with null pointers or from several threads at once.
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "client/child_fixture.h"
#include "client/service_fixture.h"
#include "salus/salus.h"
#include "shim/link.h"

extern "C" const salus::shim::ClientSide* salus_shim_link(std::uint32_t version);

namespace salus {
namespace {

using client::test::in_a_child;
using client::test::ScriptedService;
using client::test::Session;
using client::test::Setting;

constexpr std::size_t kLargeBlock = std::size_t{4} << 20;
constexpr std::uint64_t kRoomForAll = std::uint64_t{1} << 40;

// It lies in the processes of others, which may have another C++ library.
TEST(LibraryFile, ShowsItsInterfaceAlone) {
    FILE* const symbols = ::popen("nm -D --defined-only " SALUS_LIBRARY_FILE, "r");
    ASSERT_NE(symbols, nullptr);
    std::size_t ours = 0;
    std::string others;
    char name[1000];
    while (std::fscanf(symbols, "%*s %*s %999s", name) == 1) {
        if (std::string_view(name).starts_with("salus_")) ++ours;
        else others += std::string(name) + "\n";
    }
    EXPECT_EQ(::pclose(symbols), 0);
    EXPECT_GT(ours, 20U);
    EXPECT_EQ(others, "");
}

class LibraryTest : public ::testing::Test {
protected:
    ~LibraryTest() override {
        if (client_) salus_detach(client_);
    }

    void attach() {
        session_.emplace(
            service_.admit([&] { EXPECT_EQ(salus_attach(nullptr, &client_), SALUS_OK) << salus_error_text(); }));
    }
    void attach_without_a_service() {
        service_.stop();
        EXPECT_EQ(salus_attach(nullptr, &client_), SALUS_NO_SERVICE);
        ASSERT_NE(client_, nullptr);
    }
    void begin() {
        const auto granted = std::async(std::launch::async, [&] { return session_->grant(kRoomForAll); });
        ASSERT_EQ(salus_begin(client_), SALUS_OK);
    }
    bool is_shared() {
        salus_counters counters{};
        counters.size = sizeof counters;
        EXPECT_EQ(salus_get_counters(client_, &counters), SALUS_OK);
        return counters.shared == 1;
    }
    /// The calls of an ordinary job.
    bool works() {
        if (salus_begin(client_) != SALUS_OK) return false;
        void* block = salus_alloc(client_, kLargeBlock, SALUS_AUTO);
        if (!block) return false;
        std::memset(block, 1, kLargeBlock);
        salus_free(client_, block);
        return salus_end(client_) == SALUS_OK;
    }

    ScriptedService service_;
    Setting socket_{"SALUS_SOCKET", service_.socket()};
    std::optional<Session> session_;
    salus_client* client_ = nullptr;
};

// ------------------------------------------------------------------------------------------------------- wrong arguments

TEST_F(LibraryTest, WithoutAClientEveryCallIsMisuseOrDoesNothing) {
    EXPECT_EQ(salus_attach(nullptr, nullptr), SALUS_MISUSE);
    EXPECT_STREQ(salus_error_text(), "no place for the client");
    EXPECT_EQ(salus_begin(nullptr), SALUS_MISUSE);
    EXPECT_STREQ(salus_error_text(), "no client");
    EXPECT_EQ(salus_begin_within(nullptr, 0, 0), SALUS_MISUSE);
    EXPECT_EQ(salus_join_within(nullptr, 0, 0), SALUS_MISUSE);
    EXPECT_EQ(salus_forgo(nullptr), SALUS_MISUSE);
    EXPECT_EQ(salus_end(nullptr), SALUS_MISUSE);
    EXPECT_EQ(salus_leave(nullptr, 1), SALUS_MISUSE);
    EXPECT_EQ(salus_count(nullptr, 1), SALUS_MISUSE);
    EXPECT_EQ(salus_alloc(nullptr, 1, SALUS_AUTO), nullptr);
    salus_free(nullptr, &client_);
    EXPECT_EQ(salus_in_lane(nullptr, &client_), 0);
    EXPECT_STREQ(salus_device(nullptr), "host");
    EXPECT_EQ(salus_device_ordinal(nullptr), 0);
    void* block = &client_;
    EXPECT_EQ(salus_alloc_on(nullptr, 1, nullptr, 0, &block), SALUS_MISUSE);
    salus_used_on(nullptr, block, nullptr);
    salus_wait_for_stream(nullptr, nullptr);
    EXPECT_EQ(salus_owns(nullptr, block), 0);
    salus_usage usage{};
    EXPECT_EQ(salus_get_usage(nullptr, &usage), SALUS_MISUSE);
    salus_reset_peaks(nullptr);
    EXPECT_EQ(salus_give_back(nullptr), 0u);
    EXPECT_EQ(salus_interpose(nullptr, "libc.so"), SALUS_MISUSE);
    EXPECT_EQ(salus_set_threaded(nullptr, 1), SALUS_MISUSE);
    EXPECT_EQ(salus_delegate(nullptr, 1), SALUS_MISUSE);
    salus_counters counters{};
    EXPECT_EQ(salus_get_counters(nullptr, &counters), SALUS_MISUSE);
    EXPECT_EQ(salus_stop_sharing(nullptr), SALUS_MISUSE);
    EXPECT_EQ(salus_detach(nullptr), SALUS_MISUSE);
}

TEST_F(LibraryTest, WrongArgumentsAreMisuse) {
    attach();
    EXPECT_EQ(salus_alloc(client_, 1, static_cast<salus_kind>(3)), nullptr);
    EXPECT_STREQ(salus_error_text(), "no client, or no such kind of memory");
    EXPECT_EQ(salus_alloc_on(client_, 1, nullptr, 0, nullptr), SALUS_MISUSE);
    EXPECT_EQ(salus_get_usage(client_, nullptr), SALUS_MISUSE);
    EXPECT_EQ(salus_get_counters(client_, nullptr), SALUS_MISUSE);
    EXPECT_EQ(salus_interpose(client_, nullptr), SALUS_MISUSE);
    EXPECT_EQ(salus_interpose(client_, "libnowhere.so"), SALUS_MISUSE);
    EXPECT_STREQ(salus_error_text(), "no library libnowhere.so is loaded");
    salus_free(client_, nullptr);
    salus_used_on(client_, nullptr, nullptr);
    EXPECT_TRUE(is_shared());
}

TEST_F(LibraryTest, ASizeThatCannotBeIsNull) {
    attach();
    EXPECT_EQ(salus_alloc(client_, SIZE_MAX, SALUS_PERSISTENT), nullptr);
    EXPECT_STREQ(salus_error_text(), "out of memory");
    EXPECT_EQ(salus_alloc(client_, std::size_t{1} << 50, SALUS_EPHEMERAL), nullptr);
    EXPECT_TRUE(is_shared());
}

// A program that was compiled against an older header has shorter structs.
TEST_F(LibraryTest, OfAStructOnlyTheCallersPartIsReadAndWritten) {
    salus_options options{};
    options.size = offsetof(salus_options, socket);  // it ends before the socket ...
    options.name = "of old\x01";
    options.socket = "/nowhere";
    options.priority = 9;
    session_.emplace(service_.admit([&] { EXPECT_EQ(salus_attach(&options, &client_), SALUS_OK) << salus_error_text(); }));
    EXPECT_EQ(session_->attach.name.view(), "of old?");
    EXPECT_EQ(session_->attach.priority, 0) << "... and is not read beyond it";
    salus_counters counters;
    std::memset(&counters, 0x55, sizeof counters);
    counters.size = offsetof(salus_counters, shared);
    EXPECT_EQ(salus_get_counters(client_, &counters), SALUS_OK);
    EXPECT_EQ(counters.attachments, 1u);
    EXPECT_EQ(counters.shared, 0x55555555);
    salus_usage usage;
    std::memset(&usage, 0x55, sizeof usage);
    usage.size = offsetof(salus_usage, freed);
    EXPECT_EQ(salus_get_usage(client_, &usage), SALUS_OK);
    EXPECT_EQ(usage.allocated, 0u);
    EXPECT_EQ(usage.freed, 0x5555555555555555u);
}

// ----------------------------------------------------------------------------------------------------------- wrong order

TEST_F(LibraryTest, AnEndWithoutABeginIsMisuse) {
    attach();
    EXPECT_EQ(salus_end(client_), SALUS_MISUSE);
    EXPECT_STREQ(salus_error_text(), "salus_end without salus_begin");
    EXPECT_EQ(salus_leave(client_, 1), SALUS_MISUSE);
    EXPECT_STREQ(salus_error_text(), "salus_leave without salus_begin");
    EXPECT_EQ(salus_delegate(client_, 0), SALUS_OK) << "for a thread that is outside it does nothing";
    begin();
    EXPECT_EQ(salus_end(client_), SALUS_OK);
    EXPECT_EQ(salus_end(client_), SALUS_MISUSE);
}

TEST_F(LibraryTest, ASecondAttachIsMisuseAndTheFirstGoesOn) {
    attach();
    salus_client* second = client_;
    EXPECT_EQ(salus_attach(nullptr, &second), SALUS_MISUSE);
    EXPECT_EQ(second, nullptr);
    EXPECT_STREQ(salus_error_text(), "this process is already attached");
    EXPECT_TRUE(is_shared());
    EXPECT_EQ(salus_detach(std::exchange(client_, nullptr)), SALUS_OK);
    attach();  // works once the first is gone
    EXPECT_TRUE(is_shared());
}

TEST_F(LibraryTest, ADetachInsideAnIterationIsMisuse) {
    attach();
    begin();
    EXPECT_EQ(salus_detach(client_), SALUS_MISUSE);
    EXPECT_STREQ(salus_error_text(), "a thread is inside an iteration");
    EXPECT_TRUE(is_shared());
    EXPECT_EQ(salus_end(client_), SALUS_OK);
    EXPECT_EQ(salus_detach(std::exchange(client_, nullptr)), SALUS_OK);
    session_->hear<wire::Leave>();
}

TEST_F(LibraryTest, BeforeItsTurnHasComeABeginWithALimitComesBack) {
    attach();
    EXPECT_EQ(salus_begin_within(client_, 1'000'000, 0), SALUS_WAITING);
    EXPECT_EQ(salus_end(client_), SALUS_MISUSE) << "it is not inside";
    ASSERT_TRUE(session_->grant(kRoomForAll));
    EXPECT_EQ(salus_begin_within(client_, 0, 0), SALUS_OK);
    EXPECT_EQ(salus_begin_within(client_, 0, 0), SALUS_OK) << "it is inside";
    EXPECT_EQ(salus_leave(client_, 3), SALUS_OK);
    EXPECT_EQ(salus_count(client_, 2), SALUS_OK);
    EXPECT_EQ(session_->page().iterations, 5u);
}

// ------------------------------------------------------------------------------------------------------ without a service

TEST_F(LibraryTest, OnItsOwnAClientDoesAllThatItsCallsSay) {
    attach_without_a_service();
    EXPECT_EQ(std::string(salus_error_text()), "no service runs at " + service_.socket());
    EXPECT_FALSE(is_shared());
    EXPECT_TRUE(works());
    EXPECT_EQ(salus_begin_within(client_, 0, 0), SALUS_OK);
    EXPECT_EQ(salus_leave(client_, 1), SALUS_OK);
    EXPECT_EQ(salus_forgo(client_), SALUS_OK);
    EXPECT_EQ(salus_set_threaded(client_, 1), SALUS_OK);
    EXPECT_EQ(salus_stop_sharing(client_), SALUS_OK);
    EXPECT_EQ(salus_interpose(client_, "libsalus.so"), SALUS_MISUSE);
    EXPECT_STREQ(salus_error_text(), "the client is not attached");
    void* block = &client_;
    EXPECT_EQ(salus_alloc_on(client_, kLargeBlock, nullptr, 0, &block), SALUS_OK);
    EXPECT_EQ(block, nullptr) << "the caller's own allocator is to serve it";
    salus_usage usage{};
    usage.size = sizeof usage;
    EXPECT_EQ(salus_get_usage(client_, &usage), SALUS_OK);
    EXPECT_EQ(salus_give_back(client_), 0u);
}

TEST_F(LibraryTest, ThatIsDisabledNobodyIsAskedAnything) {
    const Setting disabled("SALUS_DISABLE", "1");
    salus_client* second = nullptr;
    EXPECT_EQ(salus_attach(nullptr, &client_), SALUS_OK);
    EXPECT_EQ(salus_attach(nullptr, &second), SALUS_OK) << "neither is attached";
    EXPECT_TRUE(works());
    EXPECT_FALSE(is_shared());
    EXPECT_EQ(salus_detach(second), SALUS_OK);
}

// --------------------------------------------------------------------------------------------------------------- threads

TEST_F(LibraryTest, OfThreadsThatAttachAtOnceOneDoes) {
    service_.stop();
    for (int round = 0; round < 50; ++round) {
        constexpr int kThreads = 4;
        std::atomic<int> ready{0};
        std::atomic<int> attached{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; ++i) {
            threads.emplace_back([&] {
                salus_client* mine = nullptr;
                for (++ready; ready < kThreads;) {}
                const salus_status status = salus_attach(nullptr, &mine);
                EXPECT_EQ(status, mine ? SALUS_NO_SERVICE : SALUS_MISUSE);
                if (mine && ++attached == 1) client_ = mine;
                else if (mine) salus_detach(mine);
            });
        }
        for (std::thread& thread : threads) thread.join();
        EXPECT_EQ(attached, 1);
        ASSERT_EQ(salus_detach(std::exchange(client_, nullptr)), SALUS_OK);
    }
}

TEST_F(LibraryTest, ThreadsIterateAndAllocateAtOnce) {
    attach();
    std::atomic<bool> done{false};
    std::thread service([&] {  // grants all the time
        while (!done) {
            client::test::change_word(session_->page(), control::grant);
            client::test::take_back(session_->page());
            os::sleep_for(microseconds(100));
        }
    });
    session_->page().allowed_private = kRoomForAll;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int k = 0; k < 25; ++k) EXPECT_TRUE(works());
        });
    }
    for (std::thread& thread : threads) thread.join();
    done = true;
    service.join();
    EXPECT_TRUE(is_shared());
    EXPECT_EQ(salus_detach(std::exchange(client_, nullptr)), SALUS_OK);
}

TEST_F(LibraryTest, AnErrorIsTheThreadsOwn) {
    EXPECT_EQ(salus_begin(nullptr), SALUS_MISUSE);
    std::thread other([] {
        EXPECT_STREQ(salus_error_text(), "");
        salus_attach(nullptr, nullptr);
    });
    other.join();
    EXPECT_STREQ(salus_error_text(), "no client");
}

// tests/shim/threads.cpp detaches under this sanitizer, too.
#if defined(__SANITIZE_THREAD__)
#define SKIP_WITHOUT_THREADS_IN_A_CHILD() GTEST_SKIP() << "the sanitizer takes a child's threads for its parent's"
#else
#define SKIP_WITHOUT_THREADS_IN_A_CHILD() static_cast<void>(0)
#endif

// A process shows no iterations, so its launches come to take turns; one of them waits for its turn when the program
// detaches. In a child, because a process is linked with the shim once.
TEST_F(LibraryTest, ALaunchGoesOnWhoseClientIsDetached) {
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    auto waits = os::make_signal_pair();
    ASSERT_TRUE(waits);
    const auto service = std::async(std::launch::async, [&] {
        Session first = service_.admit();
        EXPECT_TRUE(first.waits());
        EXPECT_TRUE(os::signal_through(waits->first.get()));
        first.hear<wire::Leave>();
        Session second = service_.admit();
        second.hear<wire::Leave>();
    });
    EXPECT_TRUE(in_a_child([&] {
        const shim::ClientSide& shim = *salus_shim_link(shim::kLinkVersion);
        if (salus_attach(nullptr, &client_) != SALUS_OK) return false;
        std::atomic<bool> ends{false};
        std::atomic<int> launches{0};
        const auto launch = [&] {
            for (; !ends; ++launches) {
                shim.launch_begins(nullptr);
                shim.stream_ends(&client_);
                shim.launch_ends();
            }
        };
        std::jthread one(launch), other(launch);
        if (!os::readable_within(waits->second.get(), client::test::kPatience)) return false;
        if (salus_detach(client_) != SALUS_OK || salus_attach(nullptr, &client_) != SALUS_OK) return false;
        const int before = launches;
        if (!client::test::eventually([&] { return launches > before + 100; })) return false;
        if (salus_detach(client_) != SALUS_OK) return false;
        ends = true;
        return true;
    }));
}

TEST_F(LibraryTest, AProcessMayDetachWhileItsLaunchesHaveTheTurn) {
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    auto holds = os::make_signal_pair();
    ASSERT_TRUE(holds);
    const auto service = std::async(std::launch::async, [&] {
        Session session = service_.admit();
        EXPECT_TRUE(session.grant(kRoomForAll));
        EXPECT_TRUE(client::test::eventually([&] { return session.word().state == control::State::kRunning; }));
        EXPECT_TRUE(os::signal_through(holds->first.get()));
        session.hear<wire::Leave>();
    });
    EXPECT_TRUE(in_a_child([&] {
        const shim::ClientSide& shim = *salus_shim_link(shim::kLinkVersion);
        if (salus_attach(nullptr, &client_) != SALUS_OK) return false;
        std::atomic<bool> ends{false};
        std::jthread launches([&] {
            while (!ends) {
                shim.launch_begins(nullptr);
                shim.launch_ends();
            }
        });
        const bool held = os::readable_within(holds->second.get(), client::test::kPatience);
        const bool detached = salus_detach(client_) == SALUS_OK;
        ends = true;
        return held && detached;
    }));
}

TEST_F(LibraryTest, LaunchesOfTheNextClientComeToTakeTurnsAsWell) {
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    std::array waits{os::make_signal_pair(), os::make_signal_pair()};
    const auto service = std::async(std::launch::async, [&] {
        for (const auto& waited : waits) {
            Session session = service_.admit();
            EXPECT_TRUE(session.waits());
            EXPECT_TRUE(os::signal_through(waited->first.get()));
            session.hear<wire::Leave>();
        }
    });
    EXPECT_TRUE(in_a_child([&] {
        const shim::ClientSide& shim = *salus_shim_link(shim::kLinkVersion);
        std::atomic<bool> ends{false};
        std::jthread launches([&] {
            while (!ends) {
                shim.launch_begins(nullptr);
                shim.launch_ends();
            }
        });
        const bool both = std::ranges::all_of(waits, [&](const auto& waited) {
            return salus_attach(nullptr, &client_) == SALUS_OK &&
                   os::readable_within(waited->second.get(), client::test::kPatience) && salus_detach(client_) == SALUS_OK;
        });
        ends = true;
        return both;
    }));
}

// -------------------------------------------------------------------------------------------------------------- joining

class LibraryJoins : public LibraryTest {
protected:
    /// Answers the next announcement.
    os::Descriptor answer(const wire::Running& running) {
        os::Descriptor socket = service_.accept();
        const auto next = [&] {
            EXPECT_TRUE(os::readable_within(socket.get(), client::test::kPatience));
            return wire::receive(socket.get()).message;
        };
        for (wire::Message said = next(); !std::holds_alternative<wire::Run>(said); said = next()) {
            if (!std::holds_alternative<wire::Wishes>(said)) return {};
        }
        EXPECT_TRUE(wire::send(socket.get(), running));
        return socket;
    }
    static std::string variable(const char* name) {
        const char* const value = std::getenv(name);
        return value ? value : "none";
    }
    static wire::Running running_on(const char* device, const char* gpu) {
        wire::Running running;
        running.job = 7;
        running.device = wire::Text<16>(device);
        running.gpu = wire::Text<64>(gpu);
        return running;
    }
};

TEST_F(LibraryJoins, ItIsToldItsGpuUnlessItHasOneOrHasChosenNone) {
    const struct {
        const char *device, *gpu, *before, *after;
    } rows[] = {{"cuda", "GPU-1", nullptr, "GPU-1"},
                {"cuda", "GPU-1", "GPU-2", "GPU-2"},
                {"cuda", "GPU-1", "", ""},
                {"host", "host-0", nullptr, "none"}};
    for (const auto& row : rows) {
        const auto service = std::async(std::launch::async, [&] { return answer(running_on(row.device, row.gpu)); });
        EXPECT_TRUE(in_a_child([&] {
            if (row.before) ::setenv("CUDA_VISIBLE_DEVICES", row.before, 1);
            else ::unsetenv("CUDA_VISIBLE_DEVICES");
            return salus_announce_within(nullptr, nullptr, UINT64_MAX) == SALUS_OK && salus_job() == 7 &&
                   std::string(salus_job_device()) == row.device && variable("CUDA_VISIBLE_DEVICES") == row.after;
        })) << row.device
            << " " << row.after;
    }
}

TEST_F(LibraryJoins, AChildThatIsMadeWhileAThreadWaitsMayJoin) {
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    auto waits = os::make_signal_pair();
    ASSERT_TRUE(waits);
    const auto service = std::async(std::launch::async, [&] {
        wire::Running running = running_on("host", "");
        running.waits = 1;
        const os::Descriptor parent = answer(running);
        EXPECT_TRUE(os::signal_through(waits->first.get()));
        const os::Descriptor child = answer(running_on("host", ""));
        EXPECT_TRUE(wire::send(parent.get(), wire::Start{}));
        os::readable_within(parent.get(), client::test::kPatience);  // until it ends
    });
    EXPECT_TRUE(in_a_child([&] {
        std::jthread waiting([] { salus_announce_within(nullptr, nullptr, UINT64_MAX); });
        return os::readable_within(waits->second.get(), client::test::kPatience) &&
               in_a_child([] { return salus_announce_within(nullptr, nullptr, UINT64_MAX) == SALUS_OK; });
    }));
}

// ----------------------------------------------------------------------------------------------------------------- fork

TEST_F(LibraryTest, AForkGoesOnWhoseClientIsDetached) {
    std::atomic<bool> ends{false};
    std::jthread forks([&] {
        while (!ends) EXPECT_TRUE(in_a_child([] { return true; }));
    });
    for (int i = 0; i < 30; ++i) {
        attach();
        begin();
        EXPECT_EQ(salus_end(client_), SALUS_OK);
        EXPECT_EQ(salus_detach(std::exchange(client_, nullptr)), SALUS_OK);
        session_.reset();
    }
    ends = true;
}

/// What happens while fork() is about to make the child. Our handler is registered before the library's own, so that it
/// comes after that one.
std::function<void()> midway_in_fork;
const int midway = ::pthread_atfork(
    [] {
        if (midway_in_fork) std::exchange(midway_in_fork, nullptr)();
    },
    nullptr, nullptr);

TEST_F(LibraryTest, AChildIsNotSharedWhoseParentAttachedWhileItWasMade) {
    ASSERT_EQ(midway, 0);
    attach();
    EXPECT_EQ(salus_detach(std::exchange(client_, nullptr)), SALUS_OK);
    midway_in_fork = [&] { attach(); };
    EXPECT_TRUE(in_a_child([&] { return !is_shared() && works(); }));
    EXPECT_TRUE(is_shared());
}

TEST_F(LibraryTest, AChildIsNotSharedAndMayAttachForItself) {
    attach();
    begin();
    const auto service = std::async(std::launch::async, [&] {
        Session of_the_child = service_.admit();
        EXPECT_TRUE(of_the_child.grant(kRoomForAll));
        of_the_child.hear<wire::Leave>();
    });
    EXPECT_TRUE(in_a_child([&] {
        if (is_shared() || !works()) return false;
        if (salus_detach(std::exchange(client_, nullptr)) != SALUS_OK) return false;
        if (salus_attach(nullptr, &client_) != SALUS_OK || !works() || !is_shared()) return false;
        return salus_detach(client_) == SALUS_OK;
    }));
    EXPECT_TRUE(is_shared());
    EXPECT_EQ(salus_end(client_), SALUS_OK);
    session_->catch_up();
}

}  // namespace
}  // namespace salus
