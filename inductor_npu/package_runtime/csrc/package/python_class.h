// The class Package in Python; whose extension module has it depends on the provider.
#pragma once

#include <inductor_npu/package.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

namespace inductor_npu::package {

inline void add_package_class(pybind11::module_& module) {
  namespace py = pybind11;
  // Its operators may need Python's lock, and other threads run meanwhile.
  using WithoutLock = py::call_guard<py::gil_scoped_release>;
  py::class_<Package, std::shared_ptr<Package>>(module, "Package",
                                                "A model as one file, loaded (inductor_npu/package.h).")
      .def(py::init(&Package::load), py::arg("path"), py::arg("device"), py::arg("weights"), WithoutLock(),
           "Raises RuntimeError with one line where the file does not fit or is damaged.")
      .def("run", &Package::run, py::arg("inputs"), WithoutLock())
      .def("update_weights", &Package::update_weights, py::arg("weights"), WithoutLock())
      .def("weights", &Package::weights)
      .def("manifest", &Package::manifest);
}

}  // namespace inductor_npu::package
