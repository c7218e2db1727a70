// For tests: clients of a service in the same process. They can say and write anything, because they do without the library,
// which only says and writes what makes sense.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "os/descriptor.h"
#include "os/socket.h"
#include "wire/control_page.h"
#include "wire/control_word.h"
#include "wire/framing.h"
#include "wire/messages.h"

namespace salus::service {

/// The two ends of a connection: ours, and the one for a server to adopt. Neither blocks.
struct Connected {
    os::Descriptor ours;
    os::Descriptor theirs;
};

inline Connected connected_pair() {
    auto ends = os::make_socket_pair();
    SALUS_CHECK(ends, "a pair of sockets");
    return {std::move(ends->first), std::move(ends->second)};
}

/// A process that does nothing but make connections. The kernel says that it is their peer.
class IdleProcess {
public:
    IdleProcess() {
        Connected control = connected_pair();
        ::fcntl(control.ours.get(), F_SETFL, 0);  // these two wait
        ::fcntl(control.theirs.get(), F_SETFL, 0);
        pid_ = ::fork();
        SALUS_CHECK(pid_ >= 0, "a process");
        if (pid_ == 0) serve(control.theirs.get());
        control_ = std::move(control.ours);
    }
    ~IdleProcess() { end(); }
    IdleProcess(const IdleProcess&) = delete;
    IdleProcess& operator=(const IdleProcess&) = delete;

    int pid() const { return pid_; }

    Connected connect() {
        SALUS_CHECK(wire::send(control_.get(), wire::Leave{}), "the process is asked");
        wire::Received answer = wire::receive(control_.get());
        SALUS_CHECK(answer.kind == wire::Received::Kind::kMessage, "the process answers");
        return {std::move(answer.descriptors[0]), std::move(answer.descriptors[1])};
    }

    void end() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

private:
    [[noreturn]] static void serve(int control) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::signal(SIGTERM, SIG_IGN);
        // Nothing that the parent has open may stay open here.
        ::dup2(control, 3);
        ::close_range(4, ~0u, 0);
        while (wire::receive(3).kind == wire::Received::Kind::kMessage) {
            const Connected made = connected_pair();
            const int both[] = {made.ours.get(), made.theirs.get()};
            wire::send(3, wire::Leave{}, both);
        }
        ::_exit(0);
    }

    int pid_ = -1;
    os::Descriptor control_;
};

/// A control page and an eventfd, and our end of the connection.
class RawClient {
public:
    explicit RawClient(os::Descriptor socket)
        : socket_(std::move(socket)),
          file_(::memfd_create("salus-control", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
          notify_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        SALUS_CHECK(::ftruncate(file_.get(), kControlPageSize) == 0, "a page");
        SALUS_CHECK(::fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0, "a sealed page");
        void* at = ::mmap(nullptr, kControlPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
        SALUS_CHECK(at != MAP_FAILED, "a page");
        page_ = new (at) ControlPage;
    }
    ~RawClient() { ::munmap(page_, kControlPageSize); }
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;

    bool attach(const wire::Attach& attach = {}) {
        const int descriptors[] = {file_.get(), notify_.get()};
        return wire::send(socket_.get(), attach, descriptors);
    }
    bool say(const wire::Message& message) { return wire::send(socket_.get(), message); }
    wire::Received hear() { return wire::receive(socket_.get()); }
    void hang_up() { socket_.reset(); }

    /// Applies a step of the control word (word -> word), and tells the service.
    template <typename Step>
    void change_word(const Step& step) {
        page_->word = control::pack(step(control::unpack(page_->word)));
        notify();
    }
    void notify() {
        const std::uint64_t one = 1;
        static_cast<void>(!::write(notify_.get(), &one, sizeof one));
    }

    ControlPage& page() { return *page_; }
    int socket() const { return socket_.get(); }
    int page_file() const { return file_.get(); }
    int notify_file() const { return notify_.get(); }

private:
    os::Descriptor socket_;
    os::Descriptor file_;
    os::Descriptor notify_;
    ControlPage* page_ = nullptr;
};

}  // namespace salus::service
