// torch.npu.set_sync_debug_mode: says where the program makes the host wait for the device.
#pragma once

#include <atomic>

namespace inductor_npu {

enum class SyncDebugMode : int { Off, Warn, Error };
extern std::atomic<SyncDebugMode> sync_debug_mode;

void report_wait(const char* what);

// Before the host waits because of `what`, in a way that it would on a chip, too. That operators of the library run on
// the calling thread, after the work queued so far, is the embedded NPU's own.
inline void host_waits_for(const char* what) {
  if (sync_debug_mode.load(std::memory_order_relaxed) != SyncDebugMode::Off) {
    report_wait(what);
  }
}

}  // namespace inductor_npu
