// Gates and marks of requests in the streams of a GPU.
#include <array>
#include <atomic>
#include <thread>

#include "device/cuda/cuda_memory_fixture.h"

namespace salus::device {
namespace {

using namespace on_standin;

constexpr unsigned kEnough = 64;  ///< after so many launches a gate is due

/// A client whose gate is closed, and a second context.
struct Gated {
    Gated() {
        auto made = make_cuda_client_device(bytes_of(1024 * kMiB), world.gpu.uuid, &page);
        EXPECT_TRUE(made.ok()) << made.error();
        client = std::move(made).value();
        EXPECT_TRUE(client->gated_streams->prepare());
        EXPECT_EQ(gpu.get_current(&own), kSuccess);
        EXPECT_EQ(gpu.context_create(&foreign, 0, 0), kSuccess);
        page.close();
    }
    ~Gated() {
        page.open();
        EXPECT_EQ(gpu.set_current(own), kSuccess);
    }
    Gated(const Gated&) = delete;
    Gated& operator=(const Gated&) = delete;

    Stream stream_in(cuda::Context context) const {
        make_current(context);
        cuda::Stream stream = nullptr;
        EXPECT_EQ(gpu.stream_create(&stream, cuda::kStreamNonBlocking), kSuccess);
        return reinterpret_cast<Stream>(stream);
    }
    void make_current(cuda::Context context) const { EXPECT_EQ(gpu.set_current(context), kSuccess); }
    bool stands_still(Stream stream) const {
        return gpu.stream_query(reinterpret_cast<cuda::Stream>(stream)) == cuda::kNotReady;
    }
    unsigned pass(Stream stream) const { return client->gated_streams->pass(stream, kEnough); }

    World world;
    const Standin& gpu = world.standin;
    GatePage page;
    std::unique_ptr<ClientDevice> client;
    cuda::Context own = nullptr, foreign = nullptr;
};

TEST_F(CudaMemoryTest, AGateIsPutIntoStreamsOfTheContextThatHasThePage) {
    in_process([] {
        const Gated gated;
        const Stream ours = gated.stream_in(gated.own), theirs = gated.stream_in(gated.foreign);
        gated.make_current(gated.own);
        gated.pass(theirs);
        EXPECT_FALSE(gated.stands_still(theirs)) << "whichever context is current";
        gated.make_current(gated.foreign);
        gated.pass(ours);
        EXPECT_TRUE(gated.stands_still(ours));
    });
}

TEST_F(CudaMemoryTest, OfADefaultStreamTheContextThatIsCurrentTells) {
    in_process([] {
        const Gated gated;
        gated.make_current(gated.foreign);
        EXPECT_EQ(gated.pass(0), 1u) << "the next launch may be on the one of ours";
        EXPECT_FALSE(gated.stands_still(0));
        gated.make_current(gated.own);
        gated.pass(0);
        EXPECT_TRUE(gated.stands_still(0));
    });
}

// One handle means another stream in each thread.
TEST_F(CudaMemoryTest, TheTimeBetweenGatesIsMeasuredInOneThreadsOwnStream) {
    in_process([] {
        constexpr Stream kOwn = 2;
        Gated gated;
        gated.page.open();
        gated.make_current(gated.own);
        auto* const own = reinterpret_cast<cuda::Stream>(kOwn);
        ASSERT_EQ(gated.gpu.hold(own, 1), kSuccess);
        const unsigned before = gated.pass(kOwn);
        std::jthread([&] {  // it is ahead of the first one
            gated.make_current(gated.own);
            gated.pass(kOwn);
            EXPECT_EQ(gated.gpu.stream_synchronize(own), kSuccess);
        })
            .join();
        ASSERT_EQ(gated.gpu.hold(own, 0), kSuccess);
        EXPECT_EQ(gated.gpu.stream_synchronize(own), kSuccess);
        EXPECT_EQ(gated.pass(kOwn), before) << "nothing is known of the launches' time";
    });
}

TEST_F(CudaMemoryTest, ARequestIsMarkedInStreamsOfTheContextThatHasThePage) {
    in_process([] {
        Gated gated;
        GatedStreams& streams = *gated.client->gated_streams;
        std::atomic<std::uint32_t>& done = gated.page.marks[0].done;
        const Stream theirs = gated.stream_in(gated.foreign), ours = gated.stream_in(gated.own);
        const auto store_behind = [&](Stream stream, std::uint32_t number) {
            return streams.store_behind({&stream, 1}, done, number);
        };
        EXPECT_FALSE(store_behind(theirs, 1));
        EXPECT_TRUE(store_behind(0, 2));
        EXPECT_EQ(gated.gpu.context_synchronize(), kSuccess);
        EXPECT_EQ(done, 2u);
        gated.make_current(gated.foreign);
        EXPECT_FALSE(store_behind(0, 3));
        EXPECT_TRUE(store_behind(ours, 4));
    });
}

TEST_F(CudaMemoryTest, ARequestIsDoneWhenAllItsStreamsAreAndNoneOfThemWaitsForAnother) {
    in_process([] {
        Gated gated;
        std::atomic<std::uint32_t>& done = gated.page.marks[0].done;
        const Stream slow = gated.stream_in(gated.own), fast = gated.stream_in(gated.own);
        const auto handle = [](Stream stream) { return reinterpret_cast<cuda::Stream>(stream); };
        ASSERT_EQ(gated.gpu.hold(handle(slow), 1), kSuccess);
        for (const std::uint32_t number : {1u, 2u}) {
            EXPECT_TRUE(gated.client->gated_streams->store_behind(std::array{slow, fast}, done, number));
            EXPECT_EQ(gated.gpu.stream_synchronize(handle(fast)), kSuccess);
            EXPECT_EQ(done, 0u);
        }
        ASSERT_EQ(gated.gpu.hold(handle(slow), 0), kSuccess);
        EXPECT_EQ(gated.gpu.context_synchronize(), kSuccess);
        EXPECT_EQ(done, 2u);
    });
}

}  // namespace
}  // namespace salus::device
