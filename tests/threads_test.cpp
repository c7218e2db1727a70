// Programs with threads, whose results are to be those of running without Salus, and which are to hold nobody up.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <mutex>
#include <random>
#include <thread>

#include "salus/salus.h"
#include "tests/standin/gpu_machine.h"

namespace salus::test {
namespace {

constexpr std::size_t kBlock = 8 << 20;
constexpr int kThreads = 3;

/// One that takes turns with the program under test, in the same lane.
const Words kOtherJob = {"--persistent", "8MiB", "--ephemeral", "32MiB", "--block",      "8MiB",
                         "--work",       "50",   "--touch",     "pages", "--iterations", "1000000"};

salus_client* attached() {
    salus_client* client = nullptr;
    EXPECT_EQ(salus_attach(nullptr, &client), SALUS_OK) << salus_error_text();
    return client;
}

salus_counters counters_of(salus_client* client) {
    salus_counters counters{};
    counters.size = sizeof counters;
    EXPECT_EQ(salus_get_counters(client, &counters), SALUS_OK);
    return counters;
}

bool all_bytes_are(const void* block, std::size_t size, unsigned char value) {
    const auto* bytes = static_cast<const unsigned char*>(block);
    return bytes[0] == value && std::memcmp(bytes, bytes + 1, size - 1) == 0;
}

/// A part of the test that is a client of the machine's service.
std::unique_ptr<Part> client_part(Machine& machine, const std::function<void(const Line&)>& run) {
    machine.also["SALUS_SOCKET"] = machine.socket();
    machine.also["SALUS_PAGE_DIR"] = machine.path("");
    return std::make_unique<Part>(machine.also, run);
}

/// Takes a context's stream for what "work" is on the GPU, or does it itself.
class Device {
public:
    virtual ~Device() = default;
    virtual void* allocate(salus_client* client, bool on_behalf = false) = 0;
    /// Fills the block; false if the device died of it.
    virtual bool fill(void* block, unsigned char value) = 0;
    virtual void enter_thread() {}
};

class Host : public Device {
public:
    void* allocate(salus_client* client, bool = false) override { return salus_alloc(client, kBlock, SALUS_AUTO); }
    bool fill(void* block, unsigned char value) override {
        std::memset(block, value, kBlock);
        return true;
    }
};

class Gpu : public Device {
public:
    Gpu() : standin_(Standin::start()) { EXPECT_EQ(standin_.get_current(&context_), 0); }
    void* allocate(salus_client* client, bool on_behalf) override {
        void* block = nullptr;
        EXPECT_EQ(salus_alloc_on(client, kBlock, nullptr, on_behalf, &block), SALUS_OK);
        return block;
    }
    bool fill(void* block, unsigned char value) override {
        const auto at = reinterpret_cast<device::cuda::Address>(block);
        return standin_.work(nullptr, at, kBlock, value, 50) == 0 && standin_.context_synchronize() == 0;
    }
    void enter_thread() override { EXPECT_EQ(standin_.set_current(context_), 0); }

private:
    Standin standin_;
    device::cuda::Context context_ = nullptr;
};

/// So many iterations that the next one's block is in the lane.
void learn_the_lane(Device& device, salus_client* client) {
    for (int i = 0; i < 6; ++i) {
        salus_begin(client);
        salus_free(client, device.allocate(client));
        salus_end(client);
    }
}

class ThreadedProgram : public ::testing::TestWithParam<bool> {
protected:
    static bool on_gpu() { return GetParam(); }
    std::unique_ptr<Machine> machine() {
        const Words options = {"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0"};
        if (on_gpu()) return std::make_unique<GpuMachine>(options);
        return std::make_unique<Machine>(options + Words{"--device", "host", "--capacity", "1GiB"});
    }
    static std::unique_ptr<Device> device() {
        if (on_gpu()) return std::make_unique<Gpu>();
        return std::make_unique<Host>();
    }
};
INSTANTIATE_TEST_SUITE_P(Threads, ThreadedProgram, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "OnAGpu" : "OnTheHost"; });

// A server's threads: each goes on with its output after its call, while others are inside theirs.
TEST_P(ThreadedProgram, ThreadsWorkOnTheirOwnOutputsAfterTheirCalls) {
    const auto machine = this->machine();
    Process& other = machine->job("other", kOtherJob);
    const auto part = client_part(*machine, [](const Line&) {
        const auto device = ThreadedProgram::device();
        salus_client* client = attached();
        std::atomic<int> wrong{0};
        const auto serve = [&](unsigned seed) {
            device->enter_thread();
            std::minstd_rand random(seed + 1);
            for (int call = 0; call < 150 && wrong == 0; ++call) {
                salus_begin(client);
                void* blocks[] = {device->allocate(client), device->allocate(client), device->allocate(client)};
                for (void* block : blocks) device->fill(block, 1);
                ::usleep(static_cast<useconds_t>(random() % 2000));
                salus_free(client, blocks[0]);
                salus_free(client, blocks[1]);
                salus_end(client);
                for (int i = 0; i < 4; ++i) {  // in no iteration
                    const auto value = static_cast<unsigned char>(random());
                    if (!device->fill(blocks[2], value) || !all_bytes_are(blocks[2], kBlock, value)) ++wrong;
                }
                salus_free(client, blocks[2]);
            }
        };
        std::vector<std::thread> threads;
        for (unsigned seed = 0; seed < kThreads; ++seed) threads.emplace_back(serve, seed);
        for (std::thread& thread : threads) thread.join();
        EXPECT_EQ(wrong, 0);
    });
    EXPECT_EQ(part->status(), 0);
    EXPECT_TRUE(other.runs()) << other.output();
}

// One thread is inside; autograd's works for another, which is not.
TEST_P(ThreadedProgram, WorkForACallerInNoIterationIsNotInTheLane) {
    if (!on_gpu()) GTEST_SKIP() << "on the CPU autograd has no threads";
    const auto machine = this->machine();
    const auto part = client_part(*machine, [](const Line&) {
        const auto device = ThreadedProgram::device();
        salus_client* client = attached();
        std::atomic<bool> stop{false};
        std::thread inside([&] {
            device->enter_thread();
            while (!stop) {
                salus_begin(client);
                void* blocks[] = {device->allocate(client), device->allocate(client), device->allocate(client)};
                ::usleep(2000);
                for (void* block : blocks) salus_free(client, block);
                salus_end(client);
            }
        });
        int wrong = 0;
        for (int i = 0; i < 400 && wrong == 0; ++i) {
            void* block = device->allocate(client, /*on_behalf=*/true);
            EXPECT_EQ(salus_in_lane(client, block), 0);
            for (unsigned char value = 1; value < 6; ++value) {
                if (!device->fill(block, value) || !all_bytes_are(block, kBlock, value)) ++wrong;
            }
            salus_free(client, block);
        }
        EXPECT_EQ(wrong, 0);
        stop = true;
        inside.join();
    });
    EXPECT_EQ(part->status(), 0);
}

// ... and what it does for the one that is inside, and waits for it, is in the lane as before.
TEST_P(ThreadedProgram, WorkForTheOneThatWaitsInsideIsInTheLane) {
    if (!on_gpu()) GTEST_SKIP() << "on the CPU autograd has no threads";
    const auto machine = this->machine();
    const auto part = client_part(*machine, [](const Line&) {
        const auto device = ThreadedProgram::device();
        salus_client* client = attached();
        bool in_lane = false;
        for (int i = 0; i < 8; ++i) {
            salus_begin(client);
            salus_delegate(client, 1);
            std::thread([&] {
                device->enter_thread();
                void* block = device->allocate(client, /*on_behalf=*/true);
                in_lane = salus_in_lane(client, block) != 0;
                device->fill(block, 1);
                salus_free(client, block);
            }).join();
            salus_delegate(client, 0);
            salus_end(client);
        }
        EXPECT_TRUE(in_lane);
    });
    EXPECT_EQ(part->status(), 0);
}

// A thread outside of iterations is given a block in the midst of one.
TEST_P(ThreadedProgram, AThreadThatIsAnnouncedMayUseWhatTheLaneHeld) {
    const auto machine = this->machine();
    Process& other = machine->job("other", kOtherJob);
    const auto part = client_part(*machine, [](const Line&) {
        const auto device = ThreadedProgram::device();
        salus_client* client = attached();
        bool was_in_lane = false;
        int wrong = 0;
        for (int round = 0; round < 20; ++round) {
            for (int i = 0; i < 6; ++i) {  // the lane is learned, or learned again
                salus_begin(client);
                void* block = device->allocate(client);
                was_in_lane = was_in_lane || salus_in_lane(client, block);
                salus_free(client, block);
                salus_end(client);
            }
            salus_begin(client);
            void* block = device->allocate(client);
            device->fill(block, 3);
            salus_set_threaded(client, 1);
            EXPECT_EQ(salus_in_lane(client, block), 0);
            std::atomic<bool> stop{false};
            std::thread logger([&] {
                device->enter_thread();
                for (unsigned char value = 1; !stop; ++value) {
                    if (!device->fill(block, value) || !all_bytes_are(block, kBlock, value)) ++wrong;
                }
            });
            salus_end(client);
            for (int i = 0; i < 3; ++i) {
                salus_begin(client);
                salus_free(client, device->allocate(client));
                salus_end(client);
            }
            stop = true;
            logger.join();
            salus_set_threaded(client, 0);
            salus_free(client, block);
        }
        EXPECT_TRUE(was_in_lane);
        EXPECT_EQ(wrong, 0);
    });
    EXPECT_EQ(part->status(), 0);
    EXPECT_TRUE(other.runs()) << other.output();
}

// A model whose forward has its parts computed by a pool. Before, each call waited for five seconds or more.
TEST_P(ThreadedProgram, APoolThatTheOneInsideWaitsForIsLetIn) {
    const auto machine = this->machine();
    Process& other = machine->job("other", kOtherJob);
    ASSERT_TRUE(eventually([&] { return machine->iterations("other") > 5; }));
    const auto part = client_part(*machine, [](const Line&) {
        const auto device = ThreadedProgram::device();
        salus_client* client = attached();
        for (int call = 0; call < 40; ++call) {
            salus_begin(client);
            for (int i = 0; i < 3; ++i) {
                std::thread([&] {
                    device->enter_thread();
                    ::usleep(3000);  // by then the grant is wanted back
                    salus_begin(client);
                    salus_free(client, device->allocate(client));
                    salus_end(client);
                }).join();
            }
            salus_end(client);
        }
    });
    EXPECT_TRUE(eventually([&] { return ::waitpid(part->pid(), nullptr, WNOHANG | WNOWAIT) != 0; }))
        << "40 calls take too long";
    EXPECT_EQ(part->status(), 0);
    EXPECT_TRUE(other.runs()) << other.output();
}

// A forward pass without a step, and then nothing for as long as anybody can tell.
TEST_P(ThreadedProgram, AHolderThatDoesNothingHoldsNobodyUp) {
    const auto machine = this->machine();
    Process& other = machine->job("other", kOtherJob);
    ASSERT_TRUE(eventually([&] { return machine->iterations("other") > 5; }));
    const auto part = client_part(*machine, [](const Line& line) {
        const auto device = ThreadedProgram::device();
        salus_client* client = attached();
        learn_the_lane(*device, client);
        salus_begin(client);
        void* block = device->allocate(client);
        EXPECT_TRUE(salus_in_lane(client, block));
        device->fill(block, 9);
        line.say();
        line.hear();
        EXPECT_TRUE(all_bytes_are(block, kBlock, 9));  // the lane is its own, still
        salus_free(client, block);
        salus_end(client);
        salus_begin(client);
        salus_end(client);
    });
    part->line().hear();
    EXPECT_TRUE(machine->goes_on("other", 50)) << machine->log();
    EXPECT_EQ(machine->state_of("salus_tests"), "asleep");
    part->line().say();
    EXPECT_EQ(part->status(), 0);
    EXPECT_TRUE(machine->goes_on("other")) << machine->log();
    EXPECT_TRUE(other.runs()) << other.output();
}

// A block that was in the lane when a second thread came stays there; its owner need not do anything for long.
TEST_P(ThreadedProgram, ALaneThatIsKeptHoldsNobodyUp) {
    const auto machine = this->machine();
    Process& other = machine->job("other", kOtherJob);
    ASSERT_TRUE(eventually([&] { return machine->iterations("other") > 5; }));
    const auto part = client_part(*machine, [](const Line& line) {
        const auto device = ThreadedProgram::device();
        salus_client* client = attached();
        learn_the_lane(*device, client);
        salus_begin(client);
        void* block = device->allocate(client);
        EXPECT_TRUE(salus_in_lane(client, block));
        device->fill(block, 7);
        std::thread([&] {
            salus_begin(client);
            salus_end(client);
        }).join();
        salus_end(client);
        EXPECT_TRUE(salus_in_lane(client, block));
        line.say();
        std::atomic<bool> stop{false};
        std::thread told([&] {
            line.hear();
            stop = true;
        });
        while (!stop) {  // outside of iterations, and busy
        }
        told.join();
        EXPECT_TRUE(all_bytes_are(block, kBlock, 7));
        salus_free(client, block);
    });
    part->line().hear();
    EXPECT_TRUE(machine->goes_on("other", 50)) << machine->log();
    part->line().say();
    EXPECT_EQ(part->status(), 0);
    EXPECT_TRUE(other.runs()) << other.output();
}

// They look as if they waited for each other, and would let each other in for ever.
TEST_P(ThreadedProgram, ThreadsThatSleepInsideTheirCallsStarveNobody) {
    const auto machine = this->machine();
    const auto part = client_part(*machine, [](const Line& line) {
        const auto device = ThreadedProgram::device();
        salus_client* client = attached();
        std::atomic<bool> stop{false};
        const auto serve = [&] {
            device->enter_thread();
            while (!stop) {
                salus_begin(client);
                salus_free(client, device->allocate(client));
                ::usleep(20'000);
                salus_end(client);
            }
        };
        std::thread threads[] = {std::thread(serve), std::thread(serve)};
        line.say();
        line.hear();
        stop = true;
        for (std::thread& thread : threads) thread.join();
    });
    part->line().hear();
    Process& other = machine->job("other", kOtherJob);
    EXPECT_TRUE(eventually([&] { return machine->iterations("other") >= 30; })) << machine->log();
    part->line().say();
    EXPECT_EQ(part->status(), 0);
    EXPECT_TRUE(other.runs()) << other.output();
}

TEST_P(ThreadedProgram, ThreadsThatMeetInsideTheirCallsAreAllLetIn) {
    const auto machine = this->machine();
    Process& other = machine->job("other", kOtherJob);
    ASSERT_TRUE(eventually([&] { return machine->iterations("other") > 5; }));
    const auto part = client_part(*machine, [](const Line&) {
        const auto device = ThreadedProgram::device();
        salus_client* client = attached();
        learn_the_lane(*device, client);
        std::barrier meeting(3);
        double longest_s = 0;
        const auto call = [&](double& took_s) {
            device->enter_thread();
            for (int round = 0; round < 2; ++round) {
                const double begin = seconds_now();
                salus_begin(client);
                const double inside = seconds_now();
                while (seconds_now() - inside < 0.6) {  // longer than those who rest are let in for
                }
                meeting.arrive_and_wait();
                salus_end(client);
                took_s = std::max(took_s, seconds_now() - begin);
            }
        };
        double other_s[2] = {};
        std::thread threads[] = {std::thread(call, std::ref(other_s[0])), std::thread(call, std::ref(other_s[1]))};
        call(longest_s);
        for (std::thread& thread : threads) thread.join();
        // Whoever has waited for 5 s is let in anyway.
        EXPECT_LT(std::max({longest_s, other_s[0], other_s[1]}), 5);
    });
    EXPECT_EQ(part->status(), 0);
    EXPECT_TRUE(other.runs()) << other.output();
}

// What a program has registered before it attached runs after our own part of the exit.
TEST_P(ThreadedProgram, AnExitHandlerMayIterate) {
    const auto machine = this->machine();
    Process& other = machine->job("other", kOtherJob);
    ASSERT_TRUE(eventually([&] { return machine->iterations("other") > 5; }));
    const auto part = client_part(*machine, [](const Line&) {
        static salus_client* client = nullptr;
        std::atexit([] {
            for (int i = 0; i < 20; ++i) {
                salus_begin(client);
                for (int k = 0; k < i; ++k) salus_free(client, salus_alloc(client, kBlock * 4, SALUS_PERSISTENT));
                salus_end(client);
            }
            ::_exit(::testing::Test::HasFailure() ? 1 : 0);
        });
        const auto device = ThreadedProgram::device();
        client = attached();
        learn_the_lane(*device, client);
        std::exit(1);
    });
    EXPECT_TRUE(eventually([&] { return ::waitpid(part->pid(), nullptr, WNOHANG | WNOWAIT) != 0; })) << "it hangs";
    if (::waitpid(part->pid(), nullptr, WNOHANG | WNOWAIT) == 0) part->kill();
    EXPECT_EQ(part->status(), 0);
    EXPECT_TRUE(other.runs()) << other.output();
}

// As daemons do, and some launchers.
TEST_P(ThreadedProgram, AProgramMayCloseAllDescriptors) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a race is what is tested: the program closes descriptors that others use";
#endif
    if (on_gpu()) GTEST_SKIP() << "the driver's own would be closed, too, which no program survives";
    const auto machine = this->machine();
    Process& other = machine->job("other", kOtherJob);
    ASSERT_TRUE(eventually([&] { return machine->iterations("other") > 5; }));
    for (const bool all : {false, true}) {
        SCOPED_TRACE(all ? "all of them" : "the lower ones");
        const auto part = client_part(*machine, [&](const Line& line) {
            const auto device = ThreadedProgram::device();
            salus_client* client = attached();
            const auto iterate = [&](int iterations) {
                for (int i = 0; i < iterations; ++i) {
                    salus_begin(client);
                    void* block = device->allocate(client);
                    EXPECT_TRUE(device->fill(block, 5) && all_bytes_are(block, kBlock, 5));
                    salus_free(client, block);
                    salus_end(client);
                }
            };
            iterate(6);
            const int socket = line.descriptor();
            for (int number = 3; number < (all ? 1024 : 256); ++number) {
                if (number != socket) ::close(number);
            }
            std::vector<int> files;
            while (files.size() < (all ? 1000u : 8u)) {
                const int file = ::memfd_create("the script's own", 0);
                if (file < 0) break;
                files.push_back(file);
            }
            iterate(60);
            for (const int file : files) EXPECT_EQ(::lseek(file, 0, SEEK_END), 0) << "somebody else wrote to it";
            EXPECT_EQ(counters_of(client).shared, all ? 0 : 1);
        });
        EXPECT_EQ(part->status(), 0);
        EXPECT_TRUE(machine->goes_on("other")) << machine->log();
    }
    EXPECT_TRUE(other.runs()) << other.output();
}

// ------------------------------------------------------------------------------------------------------- on the host only

/// The child looks at a block of the thread that forked it.
bool child_sees(const void* block, unsigned char value) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(all_bytes_are(block, kBlock, value) ? 0 : 1);
    int status = 1;
    ::waitpid(child, &status, 0);
    return status == 0;
}

TEST(ThreadsOnTheHost, AThreadForksWhileOthersAreInside) {
    Machine machine({"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0", "--device", "host", "--capacity", "1GiB"});
    const auto part = client_part(machine, [](const Line&) {
        Host device;
        salus_client* client = attached();
        learn_the_lane(device, client);
        salus_begin(client);  // alone, in mid-iteration
        void* mine = device.allocate(client);
        EXPECT_TRUE(salus_in_lane(client, mine));
        device.fill(mine, 4);
        EXPECT_TRUE(child_sees(mine, 4));
        EXPECT_TRUE(salus_in_lane(client, mine));  // nothing was moved for that
        std::atomic<bool> stop{false};
        std::thread inside([&] {
            while (!stop) {
                salus_begin(client);
                void* block = device.allocate(client);
                device.fill(block, 1);
                ::usleep(20'000);
                salus_free(client, block);
                salus_end(client);
            }
        });
        ::usleep(30'000);
        EXPECT_TRUE(child_sees(mine, 4));
        salus_end(client);
        EXPECT_TRUE(child_sees(mine, 4));
        for (unsigned char i = 0; i < 15; ++i) {
            salus_begin(client);
            void* block = device.allocate(client);
            device.fill(block, i);
            salus_end(client);
            EXPECT_TRUE(child_sees(block, i));
            salus_free(client, block);
        }
        salus_free(client, mine);
        stop = true;
        inside.join();
    });
    EXPECT_EQ(part->status(), 0);
}

// The thread that waits for it in its stead is the parent's alone: a child that waited for it to end would never do so.
TEST(ThreadsOnTheHost, AChildOfAThreadThatGaveUpItsTurnMayDetach) {
    Machine machine({"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0", "--device", "host", "--capacity", "1GiB"});
    const auto holder = client_part(machine, [](const Line& line) {
        salus_client* client = attached();
        salus_begin(client);
        line.say();
        line.hear();
        salus_end(client);
    });
    holder->line().hear();
    const auto part = client_part(machine, [](const Line& line) {
        salus_client* client = attached();
        EXPECT_EQ(salus_begin_within(client, 20'000'000, 0), SALUS_WAITING);
        EXPECT_EQ(salus_forgo(client), SALUS_OK);
        const pid_t child = ::fork();
        if (child == 0) ::_exit(salus_detach(client) == SALUS_OK ? 0 : 1);
        int status = 1;
        EXPECT_TRUE(eventually([&] { return ::waitpid(child, &status, WNOHANG) == child; }, 10)) << "the child hangs";
        EXPECT_EQ(status, 0);
        if (status != 0) ::kill(child, SIGKILL);
        line.say();
        EXPECT_EQ(salus_detach(client), SALUS_OK);
    });
    part->line().hear();
    holder->line().say();
    EXPECT_EQ(part->status(), 0);
    EXPECT_EQ(holder->status(), 0);
}

// A library's thread, of which nobody is told, writes to memory that is being paged out.
TEST(ThreadsOnTheHost, WritesOfANativeThreadAreNotLostWhenItsJobIsPagedOut) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the kernel settles this race, and the sanitizer does not know";
#endif
    Machine machine({"--policy", "rr", "--lanes", "1", "--min-turn-ms", "0", "--device", "host", "--capacity", "12MiB"});
    const auto part = client_part(machine, [](const Line& line) {
        salus_client* client = attached();
        constexpr std::size_t kSize = 6 << 20, kPage = 4096;
        auto* counts = static_cast<unsigned char*>(salus_alloc(client, kSize, SALUS_PERSISTENT));
        std::memset(counts, 0, kSize);
        std::vector<std::uint64_t> expected(kSize / kPage);
        std::atomic<bool> stop{false};
        std::thread native([&] {
            while (!stop) {
                for (std::size_t page = 0; page < expected.size() && !stop; ++page) {
                    auto* count = reinterpret_cast<std::uint64_t*>(counts + page * kPage);
                    std::atomic_ref(*count).fetch_add(1, std::memory_order_relaxed);
                    ++expected[page];
                }
            }
        });
        line.say();
        const auto until = seconds_now() + 60;
        while (counters_of(client).page_outs == 0 && seconds_now() < until) {
            salus_begin(client);
            salus_free(client, salus_alloc(client, 1 << 20, SALUS_AUTO));
            salus_end(client);
        }
        const std::uint64_t page_outs = counters_of(client).page_outs;
        stop = true;
        native.join();
        std::size_t lost = 0;
        for (std::size_t page = 0; page < expected.size(); ++page) {
            lost += *reinterpret_cast<std::uint64_t*>(counts + page * kPage) != expected[page] ? 1u : 0u;
        }
        EXPECT_EQ(lost, 0u) << "pages, of " << expected.size();
        EXPECT_GE(page_outs, 1u);
    });
    part->line().hear();
    machine.job("other", {"--persistent", "6MiB", "--ephemeral", "2MiB", "--block", "1MiB", "--work", "50", "--touch",
                          "pages", "--iterations", "1000000"});
    EXPECT_EQ(part->status(), 0);
}

// ---------------------------------------------------------------------------------------------------------- on a GPU only

/// Two clients in one lane: `first` has work in flight at its boundary, and `second` is granted the lane after it.
void expect_in_flight_is_waited_for(const Environment& settings,
                                    const std::function<void(const Standin&, device::cuda::Stream)>& before_the_boundary) {
    GpuMachine machine({"--policy", "rr", "--lanes", "1", "--min-turn-ms", "1"}, settings);
    const auto run = [&](bool first) {
        return client_part(machine, [&, first](const Line& line) {
            const Standin gpu = Standin::start();
            salus_client* client = attached();
            device::cuda::Stream stream = nullptr;
            ASSERT_EQ(gpu.stream_create(&stream, device::cuda::kStreamNonBlocking), 0);
            const unsigned char value = first ? 0x11 : 0x22;
            const auto allocate = [&] {
                void* block = nullptr;
                EXPECT_EQ(salus_alloc_on(client, kBlock, stream, 0, &block), SALUS_OK);
                return block;
            };
            const auto work = [&](void* block, unsigned microseconds) {
                EXPECT_EQ(gpu.work(stream, reinterpret_cast<device::cuda::Address>(block), kBlock, value, microseconds), 0);
            };
            bool in_lane = false;
            for (int i = 0; i < 5; ++i) {
                salus_begin(client);
                void* block = allocate();
                work(block, 0);
                in_lane = salus_in_lane(client, block) != 0;
                salus_free(client, block);
                salus_end(client);
            }
            EXPECT_TRUE(in_lane);
            line.say();
            line.hear();
            salus_begin(client);
            void* block = allocate();
            if (first) {
                line.say();
                line.hear();  // the other one waits for the lane by now
                work(block, 400'000);
                salus_free(client, block);
                before_the_boundary(gpu, stream);
                salus_end(client);
                line.say();
                line.hear();  // it stays, so that nothing is given back because it ends
            } else {
                work(block, 0);
                device::cuda::Context context = nullptr;
                EXPECT_EQ(gpu.retain_primary_context(&context, 0), 0);
                EXPECT_EQ(gpu.context_synchronize(), 0);
                ::usleep(600'000);
                EXPECT_TRUE(all_bytes_are(block, kBlock, value)) << "the other one's work came after ours";
                salus_free(client, block);
                salus_end(client);
            }
        });
    };
    const auto first = run(true);
    const auto second = run(false);
    first->line().hear();
    second->line().hear();
    first->line().say();
    first->line().hear();
    second->line().say();
    EXPECT_TRUE(eventually([&] {
        const nlohmann::json all = machine.status();
        return std::any_of(all["jobs"].begin(), all["jobs"].end(),
                           [](const nlohmann::json& job) { return job.value("state", "") == "waiting"; });
    }));
    first->line().say();
    first->line().hear();
    ::usleep(700'000);
    first->line().say();
    EXPECT_EQ(first->status(), 0);
    EXPECT_EQ(second->status(), 0);
}

TEST(ThreadsOnAGpu, AnotherGpuIsCurrentAtTheBoundary) {
    expect_in_flight_is_waited_for({{"SALUS_STANDIN_DEVICES", "2"}}, [](const Standin& gpu, device::cuda::Stream) {
        device::cuda::Context others = nullptr;
        ASSERT_EQ(gpu.retain_primary_context(&others, 1), 0);
        ASSERT_EQ(gpu.set_current(others), 0);
    });
}

TEST(ThreadsOnAGpu, TheHomeStreamCapturesAtTheBoundary) {
    expect_in_flight_is_waited_for(
        {}, [](const Standin& gpu, device::cuda::Stream stream) { ASSERT_EQ(gpu.set_capturing(stream, 1), 0); });
}

// record_stream in a script without iterations.
TEST(ThreadsOnAGpu, WhatAnotherStreamUsedDoesNotPileUpWithoutIterations) {
    GpuMachine machine({"--lanes", "1"});
    const auto part = client_part(machine, [](const Line&) {
        const Standin gpu = Standin::start();
        salus_client* client = attached();
        device::cuda::Stream streams[2] = {};
        for (device::cuda::Stream& stream : streams) ASSERT_EQ(gpu.stream_create(&stream, 1), 0);
        salus_usage usage{};
        usage.size = sizeof usage;
        for (int i = 0; i < 60; ++i) {
            void* block = nullptr;
            ASSERT_EQ(salus_alloc_on(client, 64 << 20, streams[0], 0, &block), SALUS_OK) << i;
            salus_used_on(client, block, streams[1]);
            salus_free(client, block);
            ASSERT_EQ(gpu.context_synchronize(), 0);
            ASSERT_EQ(salus_get_usage(client, &usage), SALUS_OK);
            ASSERT_LE(usage.reserved, std::uint64_t{256} << 20) << i;
        }
        salus_give_back(client);
        ASSERT_EQ(salus_get_usage(client, &usage), SALUS_OK);
        EXPECT_EQ(usage.reserved, 0u);
    });
    EXPECT_EQ(part->status(), 0);
}

// cuLaunchHostFunc: what the function waits for must not wait for the stream.
TEST(ThreadsOnAGpu, AHostFunctionMayFreeABlockDuringABoundary) {
    GpuMachine machine({"--lanes", "1"});
    const auto part = client_part(machine, [](const Line&) {
        const Standin gpu = Standin::start();
        static salus_client* client = attached();
        for (int i = 0; i < 20; ++i) {
            salus_begin(client);
            void* survivor = nullptr;
            ASSERT_EQ(salus_alloc_on(client, kBlock, nullptr, 0, &survivor), SALUS_OK);
            void* block = nullptr;
            ASSERT_EQ(salus_alloc_on(client, 2 * kBlock, nullptr, 0, &block), SALUS_OK);
            const auto at = reinterpret_cast<device::cuda::Address>(survivor);
            ASSERT_EQ(gpu.work(nullptr, at, kBlock, 1, 5'000), 0);
            ASSERT_EQ(gpu.launch_host_function(
                          nullptr, [](void* freed) { salus_free(client, freed); }, block),
                      0);
            if (i < 5) salus_free(client, std::exchange(survivor, nullptr));  // from then on it survives, and is waited for
            salus_end(client);
            salus_give_back(client);
            salus_free(client, survivor);
        }
    });
    EXPECT_TRUE(eventually([&] { return ::waitpid(part->pid(), nullptr, WNOHANG | WNOWAIT) != 0; })) << "it hangs";
    if (::waitpid(part->pid(), nullptr, WNOHANG | WNOWAIT) == 0) part->kill();
    EXPECT_EQ(part->status(), 0);
}

}  // namespace
}  // namespace salus::test
