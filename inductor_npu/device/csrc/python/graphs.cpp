// _C.NpuGraph, _C.ReplayedCall and private pools for Python; torch.npu.NPUGraph and torch.npu.MemPool are made of them.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allocator.h"
#include "graph.h"
#include "graph_operators.h"
#include "python/bindings.h"
#include "replayed_call.h"
#include "runtime.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

// Whoever waits for replays gives up Python's lock by itself (driver::WaitHooks).
void add_graph(py::module_& m) {
  py::class_<CapturedGraph, std::shared_ptr<CapturedGraph>>(m, "NpuGraph", "Work that is captured once and replayed by one call; see graph.h.")
      .def(py::init([](bool watched) {
             return std::make_shared<CapturedGraph>(watched ? ForeignMemory::kWatched : ForeignMemory::kUnwatched);
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

// --- ReplayedCall ----------------------------------------------------------------------------------------------------

constexpr int64_t kInCapture = -1, kResultsHeld = -2;

// Python's view of ReplayedCall: lists of arguments and results, which may hold more than tensors.
class BoundCall {
 public:
  BoundCall(std::shared_ptr<CapturedGraph> graph, std::vector<ReplayedCall::Input> inputs,
            std::vector<ReplayedCall::Output> outputs, py::list others)
      : call_(std::move(graph), std::move(inputs), std::move(outputs)), others_(std::move(others)) {}

  py::object operator()(py::list arguments, int64_t step) {
    if (capturing_graph_here() != nullptr) {
      return py::int_(kInCapture);
    }
    std::vector<at::Tensor> tensors(arguments.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      PyObject* item = PyList_GET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i));
      if (THPVariable_Check(item)) {
        tensors[i] = THPVariable_Unpack(item);
      }
    }
    if (const int64_t moved = call_.moved_input(tensors); moved >= 0) {
      return py::int_(moved);
    }
    const std::optional<std::vector<at::Tensor>> results = call_.call(tensors, step);
    if (!results.has_value()) {
      return py::int_(kResultsHeld);
    }
    arguments.attr("clear")();
    py::list list(results->size());
    for (size_t i = 0; i < results->size(); ++i) {
      list[i] = (*results)[i].defined() ? py::reinterpret_steal<py::object>(THPVariable_Wrap((*results)[i]))
                                     : py::object(others_[i]);
    }
    return list;
  }

 private:
  ReplayedCall call_;
  const py::list others_;
};

ReplayedCall::Input input_of(py::handle description) {
  if (description.is_none()) {
    return ReplayedCall::Ignored{};
  }
  if (py::isinstance<py::int_>(description)) {
    return ReplayedCall::Fixed{reinterpret_cast<const void*>(description.cast<uint64_t>())};
  }
  const auto [to, written] = description.cast<std::pair<at::Tensor, bool>>();
  return ReplayedCall::Copied{to, written};
}

ReplayedCall::Output output_of(py::handle description) {
  if (THPVariable_Check(description.ptr())) {
    return THPVariable_Unpack(description.ptr());
  }
  if (py::isinstance<py::tuple>(description)) {
    auto [index, sizes, strides, offset] =
        description.cast<std::tuple<size_t, std::vector<int64_t>, std::vector<int64_t>, int64_t>>();
    return ReplayedCall::OfInput{index, std::move(sizes), std::move(strides), offset};
  }
  return std::monostate{};
}

void add_replayed_call(py::module_& m) {
  py::class_<BoundCall>(
      m, "ReplayedCall",
      "A captured function, called with a list of arguments; returns the list of results and empties the one of "
      "arguments,\n"
      "or, without having done anything, the index of an argument that has moved (-1: the stream captures another "
      "graph;\n"
      "-2: another thread reads results that a replay would overwrite).\n"
      "What an earlier `step` returned is invalid where a replay overwrites it. See replayed_call.h.\n\n"
      "inputs: for each argument its address, (tensor to copy to, whether to copy back), or None for what is ignored.\n"
      "outputs: for each result a tensor of the graph, (index of an argument, sizes, strides, offset) for a view of it, "
      "or any\n"
      "other object, which is returned as it is.")
      .def(py::init([](std::shared_ptr<CapturedGraph> graph, const py::list& inputs, const py::list& outputs) {
             std::vector<ReplayedCall::Input> in;
             std::vector<ReplayedCall::Output> out;
             for (const py::handle input : inputs) {
               in.push_back(input_of(input));
             }
             for (const py::handle output : outputs) {
               out.push_back(output_of(output));
             }
             return std::make_unique<BoundCall>(std::move(graph), std::move(in), std::move(out), outputs);
           }),
           py::arg("graph"), py::arg("inputs"), py::arg("outputs"))
      .def("__call__", &BoundCall::operator(), py::arg("arguments"), py::arg("step"));
}

void add_pools(py::module_& m) {
  m.def("new_pool_id", &new_pool_id, py::arg("by_user"));
  m.def("retain_pool", [](int device, c10::MempoolId_t pool) { retain_pool(resolve_device(device), pool); });
  m.def("release_pool", [](int device, c10::MempoolId_t pool) { release_pool(resolve_device(device), pool); });
  m.def("pool_owners", [](int device, c10::MempoolId_t pool) { return pool_owners(resolve_device(device), pool); });
  m.def("is_of_private_pool", [](uint64_t address) { return is_of_private_pool(reinterpret_cast<const void*>(address)); });
  m.def("exchange_thread_pool", &exchange_thread_pool,
        "What this thread allocates comes from this pool; returns the one before.");
}

const Bindings bindings([](void* module) {
  auto m = py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module));
  add_graph(m);
  add_replayed_call(m);
  add_pools(m);
  m.def("is_current_stream_capturing",
        [] { return is_open() && driver::capture_of(native(current_stream())) != 0; });
});

}  // namespace
}  // namespace inductor_npu
