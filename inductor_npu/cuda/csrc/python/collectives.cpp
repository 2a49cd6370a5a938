// The binding of the backend for torch.distributed (collectives/nccl_backend.h).
#include "collectives/nccl_backend.h"
#include "python/bindings.h"
#include "python/collective_bindings.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

const Bindings bindings([](void* module) {
  collectives::bind_collectives<collectives::NcclBackend>(
      py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module)));
});

}  // namespace
}  // namespace inductor_npu
