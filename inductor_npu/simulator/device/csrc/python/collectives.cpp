// The binding of the backend for torch.distributed (collectives/backend.h).
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

#include "collectives/backend.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

const Bindings bindings([](void* module) {
  auto m = py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module));
  m.def(
      "collectives_over",
      [](const c10::intrusive_ptr<c10d::Backend>& gloo, const std::string& name, std::chrono::milliseconds timeout) {
        return c10::intrusive_ptr<c10d::Backend>(
            c10::make_intrusive<collectives::NpuBackend>(gloo, name, timeout));
      },
      py::arg("gloo"), py::arg("name"), py::arg("timeout"),
      "The backend of a process group for device npu over a backend of gloo for the same ranks. `name` is for messages.");
});

}  // namespace
}  // namespace inductor_npu
