// Waiting on another thread: spin shortly, because a wake-up by the kernel costs more than most pieces of work, then sleep.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace inductor_npu {

inline int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// True as soon as `done()` is; false when it still is not after `budget_ns`. Does not spin on a host with one core.
template <class Done>
bool spin_until(Done&& done, int64_t budget_ns) {
  if (done()) {
    return true;
  }
  static const bool single_core = std::thread::hardware_concurrency() <= 1;
  if (single_core) {
    return false;
  }
  const int64_t deadline = now_ns() + budget_ns;
  do {
    for (int i = 0; i < 16; ++i) {
      cpu_relax();
      if (done()) {
        return true;
      }
    }
  } while (now_ns() < deadline);
  return false;
}

}  // namespace inductor_npu
