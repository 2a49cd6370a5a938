// _C.register_kernel and what compiled kernels link to.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "host_kernel.h"
#include "host_threads.h"
#include "kernel_symbols.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

const Bindings bindings([](void* module) {
  auto m = py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module));
  m.def(
      "register_kernel",
      [](std::string name, uint64_t entry, int64_t scratch_bytes, int64_t work_per_program,
         std::vector<std::string> messages) {
        return reinterpret_cast<uint64_t>(
            register_kernel(std::move(name), entry, scratch_bytes, work_per_program, std::move(messages)));
      },
      py::arg("name"), py::arg("entry"), py::arg("scratch_bytes"), py::arg("work_per_program"), py::arg("messages"),
      "Makes a kernel in this process launchable; returns its handle, valid until the process ends.");
  m.def("ask_for_host_threads", &ask_for_host_threads, py::arg("count"),
        "How many threads of the host a launch takes at most; 0: as many as torch.get_num_threads().");
  m.def(
      "runtime_symbols",
      [] {
        py::dict symbols;
        for (const auto& [name, address] : kernel_symbols()) {
          symbols[name] = address;
        }
        return symbols;
      },
      "Addresses of the C functions that compiled kernels may call, by name.");
});

}  // namespace
}  // namespace inductor_npu
