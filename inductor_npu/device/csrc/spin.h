// Waiting on another thread: spin shortly, because a wake-up by the kernel costs more than most pieces of work, then
// sleep.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace inductor_npu {

inline int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// True as soon as `done()` is; false when it still is not after `budget_ns`. Does not spin on a host with one core.
// After a moment it offers its core between looks: on a busy host the thread that it waits for may be queued behind it
// on the same core.
template <class Done>
bool spin_until(Done&& done, int64_t budget_ns) {
  constexpr int64_t kPauseNs = 2'000;
  if (done()) {
    return true;
  }
  static const bool single_core = std::thread::hardware_concurrency() <= 1;
  if (single_core) {
    return false;
  }
  const int64_t begin = now_ns();
  for (int64_t now = begin; now < begin + budget_ns; now = now_ns()) {
    if (now >= begin + kPauseNs) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 8; ++i) {
      cpu_relax();
      if (done()) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace inductor_npu
