// _C.NpuGraph and private pools for Python; torch.npu.NPUGraph and torch.npu.MemPool are made of them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>

#include <memory>
#include <string>

#include "allocator.h"
#include "graph.h"
#include "runtime.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

// Whoever waits for replays gives up Python's lock by itself (driver::WaitHooks).
void add_graph(py::module_& m) {
  py::class_<CapturedGraph>(m, "NpuGraph", "Work that is captured once and replayed by one call; see graph.h.")
      .def(py::init([](bool watched) {
             return std::make_unique<CapturedGraph>(watched ? ForeignMemory::kWatched : ForeignMemory::kUnwatched);
           }),
           py::arg("watched") = true)
      .def("capture_begin", &CapturedGraph::capture_begin, py::arg("pool") = c10::MempoolId_t{0, 0})
      .def("capture_end", &CapturedGraph::capture_end)
      .def("replay", &CapturedGraph::replay)
      .def("reset", &CapturedGraph::reset)
      .def("pool", &CapturedGraph::pool)
      .def("names", &CapturedGraph::names)
      .def("debug_dump", &CapturedGraph::debug_dump, py::arg("path"))
      .def_property_readonly("is_capturing", &CapturedGraph::is_capturing)
      .def_property_readonly("is_captured", &CapturedGraph::is_captured);
}

void add_pools(py::module_& m) {
  m.def("new_pool_id", &new_pool_id, py::arg("by_user"));
  m.def("retain_pool", [](int device, c10::MempoolId_t pool) { retain_pool(resolve_device(device), pool); });
  m.def("release_pool", [](int device, c10::MempoolId_t pool) { release_pool(resolve_device(device), pool); });
  m.def("pool_owners", [](int device, c10::MempoolId_t pool) { return pool_owners(resolve_device(device), pool); });
  m.def("exchange_thread_pool", &exchange_thread_pool,
        "What this thread allocates comes from this pool; returns the one before.");
}

const Bindings bindings([](void* module) {
  auto m = py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module));
  add_graph(m);
  add_pools(m);
  m.def("is_current_stream_capturing",
        [] { return is_open() && driver::capture_of(native(current_stream())) != 0; });
});

}  // namespace
}  // namespace inductor_npu
