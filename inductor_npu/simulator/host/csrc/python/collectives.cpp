// The binding of the backend for torch.distributed (collectives/backend.h).
#include <chrono>
#include <cstdio>

#include "collectives/backend.h"
#include "collectives/group.h"
#include "python/bindings.h"
#include "python/collective_bindings.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

const Bindings bindings([](void* module) {
  collectives::bind_collectives<collectives::NpuBackend>(
      py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module)));
});

constexpr std::chrono::seconds kLongestAtExit{10};  // other ranks may have ended

const FinishAtExit finish([] {
  const bool finished = collectives::finish_all(kLongestAtExit);
  if (!finished) {
    std::fprintf(stderr, "inductor-npu: at exit, collectives on npu still wait for other ranks; Python ends without "
                         "them\n");
  }
  return finished;
});

}  // namespace
}  // namespace inductor_npu
