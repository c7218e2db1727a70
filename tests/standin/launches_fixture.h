// A program on the stand-in GPU, for tests: it has memory, streams and kernels.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "tests/standin/standin_fixture.h"

namespace salus::test {

/// Its errors, as cuda.h has them.
namespace error {
inline constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidContext = 201, kInvalidHandle = 400, kNotReady = 600;
inline constexpr int kContextIsDestroyed = 709, kInvalidImage = 200, kIllegalState = 401, kNotFound = 500,
                     kIllegalAddress = 700, kAlreadyRegistered = 712, kNotRegistered = 713, kNotSupported = 801;
inline constexpr int kNotInitialised = 3;
inline constexpr int kCaptureUnsupported = 900, kCaptureInvalidated = 901, kCaptureUnmatched = 903, kCaptureUnjoined = 904;
inline constexpr int kCaptureIsolation = 905, kCaptureImplicit = 906, kCapturedEvent = 907, kCaptureWrongThread = 908;
}  // namespace error

struct Program : Standin {
    static constexpr std::size_t kSize = 4096;
    /// The fixed handles of the default streams.
    static inline const Stream kLegacy = reinterpret_cast<Stream>(1), kPerThread = reinterpret_cast<Stream>(2);

    Program() : Standin(Standin::start()) { fill_kernel = kernel("fill"); }

    Kernel fill_kernel = nullptr;

    Kernel kernel(const char* name) const {
        Module module = nullptr;
        Kernel made = nullptr;
        EXPECT_EQ(module_load(&module, name), 0);
        EXPECT_EQ(module_function(&made, module, name), 0);
        return made;
    }
    Address block(std::size_t size = kSize) const {
        Address start = 0;
        EXPECT_EQ(allocate(&start, size), 0);
        return start;
    }
    Stream stream(unsigned flags = device::cuda::kStreamNonBlocking) const {
        Stream made = nullptr;
        EXPECT_EQ(stream_create(&made, flags), 0);
        return made;
    }
    Event event(unsigned flags = 0) const {
        Event made = nullptr;
        EXPECT_EQ(event_create(&made, flags), 0);
        return made;
    }
    Status fill(Address start, unsigned char value, Stream where, unsigned microseconds = 0) const {
        std::size_t size = kSize;
        void* parameters[] = {&start, &size, &value, &microseconds};
        const Status status = launch(fill_kernel, 1, 1, 1, 1, 1, 1, 0, where, parameters, nullptr);
        start = size = value = 0;  // they were copied
        return status;
    }
    Status make_current() const {
        Context context = nullptr;
        EXPECT_EQ(retain_primary_context(&context, 0), 0);
        return set_current(context);
    }
    static unsigned char byte_of(Address address) { return *reinterpret_cast<volatile unsigned char*>(address); }
};

/// Whether a thread that calls the driver all the time gets no further.
template <typename Count>
bool comes_to_a_stand(const Count& count) {
    for (int i = 0; i < 200; ++i) {
        const int before = count;
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
        if (count == before) return true;
    }
    return false;
}

}  // namespace salus::test
