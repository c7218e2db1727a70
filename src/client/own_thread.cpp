#include "client/own_thread.h"

#include <signal.h>

namespace salus::client {

bool OwnThread::start(void* (*run)(void*), void* argument) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    is_there_ = true;  // first: the thread itself may ask
    if (::pthread_create(&thread_, nullptr, run, argument) != 0) is_there_ = false;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return is_there_;
}

void OwnThread::join() {
    if (is_there_) ::pthread_join(thread_, nullptr);
    is_there_ = false;
}

}  // namespace salus::client
