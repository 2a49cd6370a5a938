// Threads of the runtime: named, detached, and deaf to signals, which belong to the threads of the program.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <string>
#include <thread>
#include <utility>

namespace inductor_npu {

// Starts a thread that runs `body` until the process ends. `name`: at most 15 characters.
template <class Body>
void start_host_thread(const std::string& name, Body body) {
  struct SignalsBlocked {
    SignalsBlocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  };
  const SignalsBlocked blocked;  // a new thread inherits the mask
  std::thread thread(std::move(body));
  pthread_setname_np(thread.native_handle(), name.c_str());
  thread.detach();
}

}  // namespace inductor_npu
