// _C.load_kernel.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/stl.h>

#include <string>
#include <tuple>

#include "cuda_kernel.h"
#include "python/bindings.h"
#include "runtime.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

using Facts = std::tuple<uint64_t, uint64_t, int, int, int>;

const Bindings bindings([](void* module) {
  auto m = py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module));
  m.def(
      "load_kernel",
      [](std::string name, const py::bytes& image, int shared_bytes, int threads) {
        ensure_open();
        const auto loaded = load_kernel(std::move(name), image, static_cast<unsigned>(shared_bytes),
                                        static_cast<unsigned>(threads));
        return Facts{reinterpret_cast<uint64_t>(loaded.library), reinterpret_cast<uint64_t>(loaded.kernel),
                     loaded.registers, loaded.spilled_words, loaded.most_threads};
      },
      py::arg("name"), py::arg("image"), py::arg("shared_bytes"), py::arg("threads"),
      "Loads the kernel of a cubin for the current device; `shared_bytes` and `threads` are those of a program. Returns "
      "(module, handle\n"
      "for launchers, registers and spilled words of a thread, most threads of a program). Both stay until the process "
      "ends.");
});

}  // namespace
}  // namespace inductor_npu
