// _C.Package: packages in Python.
#include <inductor_npu/package.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "python/bindings.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

// Its operators may need Python's lock, and other threads run meanwhile.
using WithoutLock = py::call_guard<py::gil_scoped_release>;

const Bindings bindings([](void* module) {
  py::class_<Package, std::shared_ptr<Package>>(
      py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module)), "Package",
      "A model as one file, loaded (inductor_npu/package.h).")
      .def(py::init(&Package::load), py::arg("path"), py::arg("device"), py::arg("weights"), WithoutLock(),
           "Raises RuntimeError with one line where the file does not fit or is damaged.")
      .def("run", &Package::run, py::arg("inputs"), WithoutLock())
      .def("update_weights", &Package::update_weights, py::arg("weights"), WithoutLock())
      .def("weights", &Package::weights)
      .def("manifest", &Package::manifest);
});

}  // namespace
}  // namespace inductor_npu
