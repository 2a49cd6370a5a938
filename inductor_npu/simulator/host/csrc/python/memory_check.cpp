// _C.turn_on_checks and _C.take_finding: checked mode, and what it found in a launch.
#include "memory_check.h"

#include <torch/csrc/utils/pybind.h>

#include "python/bindings.h"
#include "runtime.h"

namespace py = pybind11;

namespace inductor_npu::memory_check {
namespace {

py::object finding_of_launch(uint64_t stream, uint64_t function) {
  driver::Stream* queue = native_from_handle(stream);
  driver::synchronize(queue);
  raise_failure(queue);
  const std::optional<Finding> found = take_finding(function);
  if (!found.has_value()) {
    return py::none();
  }
  static constexpr const char* names[] = {"outside", "race", "unwritten"};
  py::dict result;
  result["fault"] = names[static_cast<int>(found->fault)];
  result["access"] = found->access;
  result["bytes"] = found->bytes;
  result["program"] = found->program;
  result["address"] = found->address;
  result["argument"] = found->argument;
  result["allocation"] = found->allocation;
  result["other_program"] = found->other_program;
  result["other_wrote"] = found->other_wrote;
  return result;
}

const Bindings bindings([](void* module) {
  py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module))
      .def("turn_on_checks", &turn_on, "What kernels do to memory is checked from here on, before the first allocation.")
      .def("take_finding", &finding_of_launch, py::arg("stream"), py::arg("function"),
           "In checked mode: waits for the stream, and returns what the last launch of the kernel did wrong to memory, "
           "as a dict, or None.");
});

}  // namespace
}  // namespace inductor_npu::memory_check
