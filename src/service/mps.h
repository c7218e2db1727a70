// NVIDIA's MPS, run by the service: through it, kernels of several processes run on the device at the same time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/descriptor.h"
#include "service/options.h"

namespace salus::service {

/// Under MPS a fault of one client reaches all, so it is left off unless lanes are to run at once. Without CUDA there is
/// none. `lanes_option`: as in Options, 0 leaves it to the policy.
bool wants_mps(MpsMode mode, unsigned lanes_option, unsigned lanes_the_policy_wants, bool cuda);

/// How long the daemon may take.
struct MpsPatience {
    Duration start = seconds(5);
    Duration quit = seconds(3);       ///< from "quit" to its end; then SIGTERM
    Duration terminate = seconds(3);  ///< from SIGTERM to its end; then SIGKILL
};

/// The control daemon; it starts a server when the first client comes. It outlives a service that is killed, as the jobs on
/// it are to, and the next service takes it over.
class Mps {
public:
    static constexpr std::size_t kClientsMax = 48;  ///< of one MPS server, as NVIDIA has it

    /// Returns when clients can connect. `directory` is made if need be, and is the service's alone: for pipes and logs. A
    /// daemon that an earlier service has left in it is taken over, or, if it has another GPU, ended first.
    static Result<std::unique_ptr<Mps>> start(const std::string& directory, const std::string& gpu_uuid,
                                              MpsPatience patience = {});
    /// For a service that wants none: what an earlier one may have left for this GPU, or nothing. Jobs may be on it.
    static std::unique_ptr<Mps> find(const std::string& directory, const std::string& gpu_uuid, MpsPatience patience = {});
    ~Mps() { stop(); }
    Mps(const Mps&) = delete;
    Mps& operator=(const Mps&) = delete;

    /// What clients put into CUDA_MPS_PIPE_DIRECTORY. Not the one given to start() if that was too long for a socket.
    const std::string& directory() const { return pipes_; }

    /// Readable when the daemon is gone; -1 after stop().
    int pidfd() const { return pidfd_.get(); }
    /// One line; empty while it runs.
    std::string why_gone() const;

    /// Afterwards nothing of it runs; clients that are still connected lose the device. Logs and control.out stay.
    void stop();
    /// It runs on, for clients that are still connected, and the next service takes it over.
    void leave();

private:
    Mps(std::string logs, os::Descriptor lock, MpsPatience patience);
    static Result<std::unique_ptr<Mps>> prepare(const std::string& directory, const std::string& gpu_uuid,
                                                MpsPatience patience);
    bool find_place_for_pipes();
    bool take_over(const std::string& gpu_uuid);
    void end_predecessor() const;
    void write_pid(std::string_view state) const;
    Result<bool> launch();
    Result<bool> wait_until_ready();
    bool is_gone() const;
    bool ends_when_asked();
    bool quits();
    std::string output() const { return logs_ + "/control.out"; }
    std::string last_words() const;

    std::string logs_;
    std::string pipes_;
    os::Descriptor lock_;  ///< on the directory of the logs
    MpsPatience patience_;
    std::string program_;
    std::vector<std::string> environment_;
    int pid_ = -1;
    bool taken_over_ = false;  ///< then it is no child of ours
    os::Descriptor pidfd_;
};

}  // namespace salus::service
