// _C.DeviceGuard: `with DeviceGuard(0):` makes a device current. Compiled code begins with one, hence written against
// Python's C API: the same in Python takes longer than the launch of a kernel.
#include <torch/csrc/python_headers.h>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/object_ptr.h>
#include <torch/csrc/utils/python_numbers.h>

#include "python/bindings.h"
#include "runtime.h"

namespace inductor_npu {
namespace {

struct DeviceGuard {
  PyObject_HEAD
  c10::DeviceIndex device;
  c10::DeviceIndex before;
};

DeviceGuard* guard_of(PyObject* self) {
  return reinterpret_cast<DeviceGuard*>(self);
}

c10::DeviceIndex index_of(PyObject* number) {
  const int64_t index = THPUtils_unpackLong(number);
  check_device(static_cast<int>(index));
  return static_cast<c10::DeviceIndex>(index);
}

PyObject* guard_new(PyTypeObject* type, PyObject* args, PyObject* /*keywords*/) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(PyTuple_GET_SIZE(args) == 1, "DeviceGuard takes the index of a device");
  const c10::DeviceIndex device = index_of(PyTuple_GET_ITEM(args, 0));
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) {
    guard_of(self)->device = device;
  }
  return self;
  END_HANDLE_TH_ERRORS
}

void guard_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* guard_enter(PyObject* self, PyObject* /*nothing*/) {
  HANDLE_TH_ERRORS
  guard_of(self)->before = exchange_device(guard_of(self)->device);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* guard_exit(PyObject* self, PyObject* const* /*exception*/, Py_ssize_t /*count*/) {
  HANDLE_TH_ERRORS
  set_device(guard_of(self)->before);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* set_current_device(PyObject* /*module*/, PyObject* device) {
  HANDLE_TH_ERRORS
  set_device(index_of(device));
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyMethodDef guard_methods[] = {
    {"__enter__", guard_enter, METH_NOARGS, nullptr},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(guard_exit)), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot guard_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(guard_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(guard_dealloc)},
    {Py_tp_methods, guard_methods},
    {Py_tp_doc, const_cast<char*>("DeviceGuard(device)\n--\n\nA context manager that makes a device current.")},
    {0, nullptr},
};

PyType_Spec guard_spec = {
    "inductor_npu.device._C.DeviceGuard", sizeof(DeviceGuard), 0, Py_TPFLAGS_DEFAULT, guard_slots,
};

PyMethodDef functions[] = {
    {"set_current_device", set_current_device, METH_O,
     "set_current_device(device)\n--\n\nMakes a device current, with the least overhead."},
    {nullptr, nullptr, 0, nullptr},
};

const Bindings bindings([](void* module) {
  auto* m = static_cast<PyObject*>(module);
  THPObjectPtr type(PyType_FromSpec(&guard_spec));
  if (!type || PyModule_AddObjectRef(m, "DeviceGuard", type.get()) != 0 || PyModule_AddFunctions(m, functions) != 0) {
    throw python_error();
  }
});

}  // namespace
}  // namespace inductor_npu
