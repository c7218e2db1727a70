// NVIDIA's MPS, run by the service. It lets kernels of several processes run on the device at the same time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/descriptor.h"
#include "service/options.h"

namespace salus::service {

/// Under MPS, a fault of one client hits all clients. So MPS stays off unless several lanes are to run at once. Without CUDA
/// there is no MPS. For all users, it starts only if it is asked for: it would serve the service's own user alone.
/// Where overlap is measured, `auto` starts it if that has shown that it helps (`helps`), however many lanes there may be.
/// `lanes_option`: as in Options; 0 leaves the number to the policy.
bool wants_mps(MpsMode mode, unsigned lanes_option, unsigned lanes_the_policy_wants, bool cuda, bool all_users,
               std::optional<bool> helps = {});

/// Whether a job may use the service's MPS. A server of MPS belongs to one user: a client of another would wait until the
/// server's clients have left and another server has started, and a fault of one user's job would end the other's. So MPS is
/// for jobs of the service's own user; those of others run without it. `on_mps`: the jobs that use it already.
bool may_join_mps(unsigned service_uid, unsigned job_uid, std::size_t on_mps);

/// How long the daemon may take.
struct MpsPatience {
    Duration start = seconds(5);
    Duration quit = seconds(3);       ///< from "quit" to its end; after that it gets SIGTERM
    Duration terminate = seconds(3);  ///< from SIGTERM to its end; after that it gets SIGKILL
};

/// The control daemon, which starts a server when the first client connects. It outlives a killed service, so that the jobs
/// that use it survive; the next service takes it over.
class Mps {
public:
    static constexpr std::size_t kClientsMax = 48;  ///< NVIDIA's limit for one MPS server

    /// Returns when clients can connect. `directory` is created if needed, holds pipes and logs, and is for this service
    /// alone. A daemon that an earlier service left there is taken over, or, if it serves another GPU, ended first.
    static Result<std::unique_ptr<Mps>> start(const std::string& directory, const std::string& gpu_uuid,
                                              MpsPatience patience = {});
    /// For a service that wants no MPS: the daemon that an earlier service left for this GPU, or nothing. Jobs may use it.
    static std::unique_ptr<Mps> find(const std::string& directory, const std::string& gpu_uuid, MpsPatience patience = {});
    ~Mps() { stop(); }
    Mps(const Mps&) = delete;
    Mps& operator=(const Mps&) = delete;

    /// CUDA_MPS_PIPE_DIRECTORY for clients. Not the directory given to start() if that is too long for a socket.
    const std::string& directory() const { return pipes_; }

    /// Becomes readable when the daemon ends; -1 after stop().
    int pidfd() const { return pidfd_.get(); }
    /// One line; empty while it runs.
    std::string why_gone() const;

    /// Ends the daemon and its server; clients that are still connected lose the device. Logs and control.out stay.
    void stop();
    /// Leaves the daemon running for clients that are still connected. The next service takes it over.
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
    bool taken_over_ = false;  ///< then it is not our child
    os::Descriptor pidfd_;
};

}  // namespace salus::service
