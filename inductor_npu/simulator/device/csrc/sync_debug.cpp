#include "sync_debug.h"

#include <c10/util/Exception.h>
#include <torch/csrc/utils/pybind.h>

#include "runtime.h"

namespace py = pybind11;

namespace inductor_npu {

std::atomic<SyncDebugMode> sync_debug_mode{SyncDebugMode::Off};

void report_wait(const char* what) {
  static constexpr const char* kText =
      " makes the host wait for device npu (torch.npu.set_sync_debug_mode): keep values on the device, or copy to "
      "pinned memory with non_blocking=True";
  TORCH_CHECK(sync_debug_mode.load() != SyncDebugMode::Error, what, kText);
  TORCH_WARN(what, kText);
}

namespace {

const Bindings bindings([](void* module) {
  auto m = py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module));
  m.def("set_sync_debug_mode", [](int mode) { sync_debug_mode.store(static_cast<SyncDebugMode>(mode)); });
  m.def("get_sync_debug_mode", [] { return static_cast<int>(sync_debug_mode.load()); });
});

}  // namespace
}  // namespace inductor_npu
