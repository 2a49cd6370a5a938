// The binding of the backend for torch.distributed (collectives/backend.h).
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include "collectives/backend.h"
#include "collectives/group.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

using collectives::NpuBackend;
using Options = c10d::Backend::Options;

// Calls a function of Python from whatever thread, and lets go of it with Python's lock held.
collectives::GlooMaker maker_of(py::function make) {
  const auto let_go = [](py::function* function) {
    const py::gil_scoped_acquire lock;
    delete function;
  };
  const std::shared_ptr<py::function> held(new py::function(std::move(make)), let_go);
  return [held](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout) {
    const py::gil_scoped_acquire lock;
    return (*held)(store, rank, size, timeout).cast<c10::intrusive_ptr<c10d::Backend>>();
  };
}

// Settings that a group can be made of; torch.distributed.split_group copies those of the parent.
struct NpuOptions final : Options {
  using Options::Options;
};

const Bindings bindings([](void* module) {
  auto m = py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module));
  py::class_<NpuOptions, c10::intrusive_ptr<NpuOptions>, Options>(m, "CollectiveOptions")
      .def("__deepcopy__", [](const NpuOptions& options, const py::dict& /*memo*/) {
        return c10::make_intrusive<NpuOptions>(options);
      });
  py::class_<NpuBackend, c10::intrusive_ptr<NpuBackend>, c10d::Backend>(
      m, "Collectives", "The backend of a process group for device npu, over a backend of gloo for the same ranks.")
      .def(py::init([](py::function make_gloo, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       const std::string& name, std::chrono::milliseconds timeout) {
             return c10::make_intrusive<NpuBackend>(maker_of(std::move(make_gloo)), store, rank, size, name, timeout);
           }),
           py::arg("make_gloo"), py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("name"),
           py::arg("timeout"),
           "`make_gloo(store, rank, size, timeout)` makes that backend, for this group and for those that split off. "
           "`name` is for messages.")
      .def_property_readonly("options", [](NpuBackend& backend) {
        return c10::make_intrusive<NpuOptions>(backend.getBackendName(), backend.getBackendOptions()->timeout);
      });
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
