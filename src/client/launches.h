// Turns of a process that shows no iterations: a JAX, CuPy or C++ program, whose launches are all that can be seen of it.
//
// Note [Turns by launches]
// Its iteration begins with a launch for which it has no turn, and ends when the device has nothing left to do for it and no
// launch has come for a moment; or, if the turn is wanted back, at the next launch. Either way the end is a boundary like
// any other, with marks on all streams that were launched on; a turn that goes back is drained first. So to the service it
// is a client with P and no T, and its time on the device is the time that it held.
//
// Between these two a launch costs two atomic additions. All state is in one word: whether a turn is open, whether it is
// being closed, how many launches there were, and how many threads are inside a launch. A turn is closed only while no
// thread is inside; a launch that finds it closed, or closing, waits for the next turn, with no lock held.
//
// A thread that captures a graph gives the device nothing to do: its launches need no turn.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "client/own_thread.h"
#include "device/device.h"

namespace salus::client {

/// What Launches needs of the client that it belongs to.
class LaunchTurns {
public:
    virtual ~LaunchTurns() = default;

    enum class Entered : std::uint8_t {
        kYes,
        kWithout,  ///< this launch goes ahead without a turn: nobody grants one, or a signal has to be handled
    };
    /// Waits for the process's turn and enters an iteration.
    virtual Entered enter_iteration() = 0;
    /// Leaves it. For the last one this is a boundary, which drains the device if the turn is wanted back.
    virtual void leave_iteration() = 0;
    virtual bool is_wanted_back() const = 0;
    /// The turn that is about to go back is wanted again at once: enter_iteration() follows.
    virtual void wish() = 0;
    /// How many launches there have been, for the service to see.
    virtual void show(std::uint64_t launches) = 0;
    /// Whether there is anybody to share the device with.
    virtual bool has_company() const = 0;

    // Work in flight. None of these waits for the device.
    virtual bool captures(device::Stream stream) = 0;
    virtual void launches_on(device::Stream stream) = 0;
    /// Marks what the streams were given so far; passed() says whether that is done. False: one of them captures, and its
    /// earlier work cannot be marked now.
    virtual bool mark() = 0;
    virtual bool passed() = 0;
    /// Waits while the device has too much in flight for this stream.
    virtual void keep_pace(device::Stream stream) = 0;
};

class Launches {
public:
    explicit Launches(LaunchTurns& turns);
    ~Launches() { stop(); }
    Launches(const Launches&) = delete;
    Launches& operator=(const Launches&) = delete;

    /// Around each launch. begin() waits for the turn.
    void begin(device::Stream stream) {
        const std::uint64_t before = state_.fetch_add(kOneLaunch + kOneInside, std::memory_order_acq_rel);
        if ((before & (kOpen | kClosing)) != kOpen || turns_.is_wanted_back()) [[unlikely]]
            begin_slowly(stream);
        note(stream);
        if (turns_.has_company()) turns_.keep_pace(stream);
    }
    void end() { state_.fetch_sub(kOneInside, std::memory_order_release); }

    std::uint64_t count() const { return (state_.load(std::memory_order_relaxed) & kLaunches) / kOneLaunch; }
    /// Looks whether the turn that is open has come to its end. The watcher does so every now and then.
    void look();
    /// From now on launches wait for nothing. Ends the turn that is open, if there is one.
    void stop();
    /// In a child of fork().
    void forget();

private:
    static constexpr std::uint64_t kOneInside = 1, kInside = 0xffff;
    static constexpr std::uint64_t kOneLaunch = std::uint64_t{1} << 16,
                                   kLaunches = ((std::uint64_t{1} << 62) - 1) & ~kInside;
    static constexpr std::uint64_t kClosing = std::uint64_t{1} << 62, kOpen = std::uint64_t{1} << 63;

    void begin_slowly(device::Stream stream);
    void note(device::Stream stream);
    void open();
    void close();
    bool wait_until_empty() const;
    bool has_waited_enough() const;
    void watch();

    LaunchTurns& turns_;
    std::atomic<std::uint64_t> state_{0};
    std::atomic<std::uint64_t> marks_;  ///< streams have to be noted again after each
    std::mutex changes_;                ///< held by who opens or closes a turn

    // The watcher.
    std::uint64_t seen_ = 0;  ///< the state when it last looked; under changes_
    bool marked_ = false;     ///< ... and nothing was launched since the last mark
    std::uint64_t quiet_since_ns_ = 0;
    std::mutex watch_mutex_;
    std::condition_variable wake_;
    bool is_open_ = false;              ///< under watch_mutex_
    std::atomic<bool> stopped_{false};  ///< set under watch_mutex_
    OwnThread watcher_;
};

}  // namespace salus::client
