// The Python module _C: torch.npu.set_sync_debug_mode.
#include "sync_debug.h"

#include <torch/csrc/utils/pybind.h>

#include "python/bindings.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

const Bindings bindings([](void* module) {
  auto m = py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module));
  m.def("set_sync_debug_mode", [](int mode) { sync_debug_mode.store(static_cast<SyncDebugMode>(mode)); });
  m.def("get_sync_debug_mode", [] { return static_cast<int>(sync_debug_mode.load()); });
});

}  // namespace
}  // namespace inductor_npu
