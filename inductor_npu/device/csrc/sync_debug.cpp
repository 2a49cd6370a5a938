#include "sync_debug.h"

#include <c10/util/Exception.h>

namespace inductor_npu {

std::atomic<SyncDebugMode> sync_debug_mode{SyncDebugMode::Off};

void report_wait(const char* what) {
  static constexpr const char* kText =
      " makes the host wait for device npu (torch.npu.set_sync_debug_mode): keep values on the device, or copy to "
      "pinned memory with non_blocking=True";
  TORCH_CHECK(sync_debug_mode.load() != SyncDebugMode::Error, what, kText);
  TORCH_WARN(what, kText);
}

}  // namespace inductor_npu
