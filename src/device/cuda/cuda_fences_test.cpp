// Work in flight on a GPU.
#include "device/cuda/cuda_memory_fixture.h"

namespace salus::device {
namespace {

using namespace on_standin;

/// A client with a piece of private memory, and a stream beside the default one.
struct OneClient {
    World world;
    const Standin& gpu = world.standin;
    std::unique_ptr<ClientDevice> a = world.client();
    cuda::Address at = 0;
    cuda::Stream side = nullptr;
    Stream stream = 0;  ///< the same, as fences name it

    OneClient() {
        EXPECT_TRUE(a->own->back({0, kPiece}));
        at = reinterpret_cast<cuda::Address>(a->own->start());
        EXPECT_EQ(gpu.stream_create(&side, cuda::kStreamNonBlocking), kSuccess);
        stream = reinterpret_cast<Stream>(side);
    }
};

TEST_F(CudaMemoryTest, DrainWaitsForWhatTheFenceMarked) {
    in_process([] {
        const OneClient one;
        const auto& [world, gpu, a, at, side, stream] = one;
        EXPECT_TRUE(a->fences->passed()) << "nothing was marked";
        a->fences->drain();

        ASSERT_EQ(gpu.hold(side, 1), kSuccess);
        ASSERT_EQ(gpu.work(side, at, kMiB, 5, 0), kSuccess);
        a->fences->fence();
        EXPECT_TRUE(a->fences->passed()) << "that it is used was not said";
        a->fences->uses(stream);
        a->fences->fence();
        EXPECT_FALSE(a->fences->passed());
        ASSERT_EQ(gpu.hold(side, 0), kSuccess);
        a->fences->drain();
        EXPECT_TRUE(a->fences->passed());
        EXPECT_EQ(a->own->start()[kMiB - 1], std::byte{5});

        // The default stream, too, and what comes after another.
        ASSERT_EQ(gpu.work(nullptr, at, kMiB, 6, 20'000), kSuccess);
        EXPECT_EQ(a->fences->order(0, stream), Fences::Order::kDone);
        ASSERT_EQ(gpu.work(side, at, kMiB, 7, 0), kSuccess);
        a->fences->uses(0);
        a->fences->uses(stream);
        EXPECT_TRUE(a->fences->fence());
        EXPECT_EQ(a->own->start()[0], std::byte{5});
        a->fences->drain();
        EXPECT_EQ(a->own->start()[0], std::byte{7});

        // Of a graph that is being captured nothing runs; of what came before nobody can tell.
        ASSERT_EQ(gpu.set_capturing(side, 1), kSuccess);
        ASSERT_EQ(gpu.hold(side, 1), kSuccess);
        ASSERT_EQ(gpu.work(side, at, kMiB, 8, 0), kSuccess);
        a->fences->uses(stream);
        EXPECT_FALSE(a->fences->fence());
        EXPECT_FALSE(a->fences->passed());
        ASSERT_EQ(gpu.hold(side, 0), kSuccess);
        a->fences->drain();
    });
}

/// A turn is not kept for a device that does nothing any longer.
TEST_F(CudaMemoryTest, AfterAFaultNoStreamCountsAsCapturing) {
    in_process([] {
        const OneClient one;
        const auto& [world, gpu, a, at, side, stream] = one;
        ASSERT_EQ(gpu.work(side, 0x1000, kMiB, 5, 0), kSuccess);
        EXPECT_NE(gpu.context_synchronize(), kSuccess);
        a->fences->uses(stream);
        EXPECT_FALSE(a->fences->captures(stream));
        EXPECT_TRUE(a->fences->fence());
        a->fences->drain();
    });
}

TEST_F(CudaMemoryTest, WhatRanBeforeACaptureIsStillWaitedFor) {
    in_process([] {
        const OneClient one;
        const auto& [world, gpu, a, at, side, stream] = one;
        a->fences->turn_begins(stream);
        ASSERT_EQ(gpu.hold(side, 1), kSuccess);
        ASSERT_EQ(gpu.work(side, at, kMiB, 5, 0), kSuccess);
        a->fences->uses(stream);
        a->fences->fence();
        ASSERT_EQ(gpu.set_capturing(side, 1), kSuccess);
        for (int boundary = 0; boundary < 2; ++boundary) {
            a->fences->uses(stream);
            a->fences->fence();
            EXPECT_EQ(a->fences->order(stream, 0), Fences::Order::kNotNow);
        }
        EXPECT_FALSE(a->fences->passed());
        ASSERT_EQ(gpu.hold(side, 0), kSuccess);
        a->fences->drain();
        EXPECT_EQ(a->own->start()[0], std::byte{5});
        EXPECT_FALSE(a->fences->passed());
        ASSERT_EQ(gpu.set_capturing(side, 0), kSuccess);
        EXPECT_TRUE(a->fences->fence());
        a->fences->drain();
        EXPECT_TRUE(a->fences->passed());
    });
}

TEST_F(CudaMemoryTest, WhatAnotherGpusContextIsCurrentForIsDoneInOurs) {
    environment["SALUS_STANDIN_DEVICES"] = "2";
    in_process([] {
        const OneClient one;
        const auto& [world, gpu, a, at, side, stream] = one;
        ASSERT_EQ(gpu.work(nullptr, at, kMiB, 5, 50'000), kSuccess);
        cuda::Context others = nullptr;
        ASSERT_EQ(gpu.retain_primary_context(&others, 1), kSuccess);
        ASSERT_EQ(gpu.set_current(others), kSuccess);
        a->fences->uses(0);
        a->fences->fence();
        EXPECT_FALSE(a->fences->passed());
        a->fences->drain();
        EXPECT_EQ(a->own->start()[0], std::byte{5});
        cuda::Context current = nullptr;
        ASSERT_EQ(gpu.get_current(&current), kSuccess);
        EXPECT_EQ(current, others) << "the script's own choice stands";
    });
}

TEST_F(CudaMemoryTest, AStreamThatWasDestroyedIsWaitedForOnceAndForgotten) {
    in_process([] {
        const OneClient one;
        const auto& [world, gpu, a, at, side, stream] = one;
        ASSERT_EQ(gpu.work(side, at, kMiB, 5, 50'000), kSuccess);
        a->fences->uses(stream);
        ASSERT_EQ(gpu.stream_destroy(side), kSuccess);
        a->fences->fence();
        a->fences->fence();  // it stays in doubt until somebody has waited
        EXPECT_FALSE(a->fences->passed());
        a->fences->drain();
        EXPECT_EQ(a->own->start()[0], std::byte{5});
        a->fences->fence();
        EXPECT_TRUE(a->fences->passed());
        EXPECT_EQ(a->fences->order(stream, 0), Fences::Order::kGone) << "or the home could never leave it";
    });
}

TEST_F(CudaMemoryTest, WhatCannotBeMarkedIsWaitedForAllTheSame) {
    environment["SALUS_STANDIN_FAIL"] = "cuEventCreate:1";
    in_process([] {
        const OneClient one;
        const auto& [world, gpu, a, at, side, stream] = one;
        ASSERT_EQ(gpu.work(nullptr, at, kMiB, 5, 100'000), kSuccess);
        a->fences->uses(0);
        a->fences->fence();
        EXPECT_FALSE(a->fences->passed());
        a->fences->drain();
        EXPECT_EQ(a->own->start()[0], std::byte{5});
        a->fences->fence();
        a->fences->drain();
        EXPECT_TRUE(a->fences->passed()) << "the next fence has marked it";
    });
}

}  // namespace
}  // namespace salus::device
