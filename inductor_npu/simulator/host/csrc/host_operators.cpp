// Lets go of OpenMP threads that spin: omp_pause_resource (OpenMP 5.0) of the runtime that PyTorch has loaded.
#include "host_operators.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

namespace inductor_npu {
namespace {

// Kernels that take less do not earn the new threads that the next operator will start.
constexpr int64_t kWorthNewThreadsNs = 600'000;
constexpr int64_t kNoOperator = -1;

thread_local int64_t queued_ns = kNoOperator;  // kernels since the last operator

// Threads that have run operators. Each has OpenMP threads of its own; those of two are more than there are cores, and
// GNU's OpenMP lets none of them spin for long then.
std::atomic<int> operating_threads{0};

struct OperatingThread {
  OperatingThread() noexcept { operating_threads.fetch_add(1, std::memory_order_relaxed); }
  ~OperatingThread() { operating_threads.fetch_sub(1, std::memory_order_relaxed); }
};

// Ends the threads that wait for this one, if its OpenMP knows how.
void end_waiting_threads() noexcept {
  using Pause = int (*)(int kind, int device);
  using InitialDevice = int (*)();
  constexpr int kSoft = 1;  // omp_pause_soft
  static void* const torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);  // finds what it links to as well
  static const auto pause = reinterpret_cast<Pause>(torch ? dlsym(torch, "omp_pause_resource") : nullptr);
  static const auto initial_device =
      reinterpret_cast<InitialDevice>(torch ? dlsym(torch, "omp_get_initial_device") : nullptr);
  if (pause != nullptr && initial_device != nullptr) {
    pause(kSoft, initial_device());
  }
}

}  // namespace

void note_host_operator() noexcept {
  static thread_local OperatingThread counted;
  queued_ns = 0;
}

void make_room_for(int64_t expected_ns) noexcept {
  if (queued_ns == kNoOperator || operating_threads.load(std::memory_order_relaxed) > 1) {
    return;
  }
  queued_ns += expected_ns;
  if (queued_ns >= kWorthNewThreadsNs) {
    end_waiting_threads();
    queued_ns = kNoOperator;
  }
}

}  // namespace inductor_npu
