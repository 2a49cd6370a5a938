// _C.Package: packages in Python.
#include "package/python_class.h"
#include "python/bindings.h"

namespace inductor_npu {
namespace {

const Bindings bindings([](void* module) {
  auto python = pybind11::reinterpret_borrow<pybind11::module_>(static_cast<PyObject*>(module));
  package::add_package_class(python);
});

}  // namespace
}  // namespace inductor_npu
