// The binding of a runtime's backend for torch.distributed.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "collectives/maker.h"

namespace inductor_npu::collectives {

// Calls a function of Python from whatever thread, and lets go of it with Python's lock held.
inline Maker maker_of(pybind11::function make) {
  const auto let_go = [](pybind11::function* function) {
    const pybind11::gil_scoped_acquire lock;
    delete function;
  };
  const std::shared_ptr<pybind11::function> held(new pybind11::function(std::move(make)), let_go);
  return [held](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout) {
    const pybind11::gil_scoped_acquire lock;
    return (*held)(store, rank, size, timeout).cast<c10::intrusive_ptr<c10d::Backend>>();
  };
}

// Settings that a group can be made of; torch.distributed.split_group copies those of the parent.
struct NpuOptions final : c10d::Backend::Options {
  using Options::Options;
};

// Adds class `Collectives`: a `BackendOfNpu`, over a backend of another kind for the same ranks.
template <class BackendOfNpu>
void bind_collectives(pybind11::module_ m) {
  namespace py = pybind11;
  using Options = c10d::Backend::Options;
  py::class_<NpuOptions, c10::intrusive_ptr<NpuOptions>, Options>(m, "CollectiveOptions")
      .def("__deepcopy__", [](const NpuOptions& options, const py::dict& /*memo*/) {
        return c10::make_intrusive<NpuOptions>(options);
      });
  py::class_<BackendOfNpu, c10::intrusive_ptr<BackendOfNpu>, c10d::Backend>(
      m, "Collectives", "The backend of a process group for device npu, over another for the same ranks.")
      .def(py::init([](py::function make, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       const std::string& name, std::chrono::milliseconds timeout) {
             return c10::make_intrusive<BackendOfNpu>(maker_of(std::move(make)), store, rank, size, name, timeout);
           }),
           py::arg("make"), py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("name"), py::arg("timeout"),
           "`make(store, rank, size, timeout)` makes that other backend, for this group and for those that split off. "
           "`name` is for messages.")
      .def_property_readonly("options", [](BackendOfNpu& backend) {
        return c10::make_intrusive<NpuOptions>(backend.getBackendName(), backend.getBackendOptions()->timeout);
      });
}

}  // namespace inductor_npu::collectives
