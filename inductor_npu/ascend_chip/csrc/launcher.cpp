// Launches the kernels of Ascend's Triton on torch_npu's streams: one callable type for kernels of any signature.
//
// Ascend's Triton writes and compiles a C++ module for each signature, which takes a compiler 6 to 10 s. What differs
// between signatures is how arguments are packed; here that is data.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <exception>

#include "launch.h"

namespace {

using ascend::Packed;

// -- a kernel's launcher ---------------------------------------------------------------------------------------------
// How an argument of Python becomes bytes of the kernel's. `skipped` ones are constants that the compiler knows.
struct Argument {
  char kind;  // P pointer, b h i q signed of 1 2 4 8 bytes, I Q unsigned of 4 8, f d floating-point of 4 8
  bool skipped;
};

struct Launcher {
  PyObject_HEAD
  vectorcallfunc call;
  ascend::KernelFacts* facts;
  std::vector<Argument>* arguments;
  PyObject* workspace_of;  // bytes -> tensor of the device
};

PyObject* data_ptr_name;

bool pointer_of(PyObject* value, uint64_t& pointer) {
  if (value == Py_None) return pointer = 0, true;
  if (PyLong_Check(value)) {
    pointer = PyLong_AsUnsignedLongLong(value);
    return !PyErr_Occurred();
  }
  PyObject* address = PyObject_CallMethodNoArgs(value, data_ptr_name);
  if (!address) return false;
  pointer = PyLong_AsUnsignedLongLong(address);
  Py_DECREF(address);
  return !PyErr_Occurred();
}

template <typename T>
bool push_integer(Packed& packed, PyObject* value, bool skipped) {
  long long number = PyLong_AsLongLong(value);
  if (number == -1 && PyErr_Occurred()) return false;
  if (skipped ? Packed::fits<T>(number) : packed.push_integer<T>(number)) return true;
  PyErr_Format(PyExc_OverflowError, "%lld does not fit an argument of %zu bytes", number, sizeof(T));
  return false;
}

bool push(Packed& packed, const Argument& argument, PyObject* value) {
  switch (argument.kind) {
    case 'P': {
      uint64_t pointer;
      if (!pointer_of(value, pointer)) return false;
      if (!argument.skipped) packed.push(pointer);
      return true;
    }
    case 'b': return push_integer<int8_t>(packed, value, argument.skipped);
    case 'h': return push_integer<int16_t>(packed, value, argument.skipped);
    case 'i': return push_integer<int32_t>(packed, value, argument.skipped);
    case 'I': return push_integer<uint32_t>(packed, value, argument.skipped);
    case 'q': return push_integer<int64_t>(packed, value, argument.skipped);
    case 'Q': {
      uint64_t number = PyLong_AsUnsignedLongLong(value);
      if (PyErr_Occurred()) return false;
      if (!argument.skipped) packed.push(number);
      return true;
    }
    default: {
      double number = PyFloat_AsDouble(value);
      if (number == -1 && PyErr_Occurred()) return false;
      if (argument.skipped) return true;
      if (argument.kind == 'd') packed.push(number);
      else packed.push(static_cast<float>(number));
      return true;
    }
  }
}

bool run_hook(PyObject* hook, PyObject* const* values, Py_ssize_t count) {
  if (hook == Py_None) return true;
  PyObject* result = PyObject_Vectorcall(hook, values, count, nullptr);
  Py_XDECREF(result);
  return result != nullptr;
}

bool enqueue(const Launcher& launcher, const void* kernel, void* stream, unsigned long blocks, Packed packed) {
  std::string failure;
  Py_BEGIN_ALLOW_THREADS;
  try {
    ascend::enqueue(*launcher.facts, kernel, stream, blocks, std::move(packed));
  } catch (const std::exception& error) {
    failure = error.what();
    if (failure.empty()) failure = "unknown error";
  }
  Py_END_ALLOW_THREADS;
  if (failure.empty()) return true;
  PyErr_Format(PyExc_RuntimeError, "launch of %s: %s", launcher.facts->name.c_str(), failure.c_str());
  return false;
}

// (grid x, y, z, stream, kernel, packed metadata, launch metadata, enter hook, exit hook, *the kernel's arguments)
constexpr Py_ssize_t kBefore = 9;

PyObject* launch(PyObject* self, PyObject* const* values, size_t flags, PyObject* names) {
  const Launcher& launcher = *reinterpret_cast<Launcher*>(self);
  Py_ssize_t count = PyVectorcall_NARGS(flags);
  Py_ssize_t wanted = kBefore + static_cast<Py_ssize_t>(launcher.arguments->size());
  if (count != wanted || (names && PyTuple_GET_SIZE(names))) {
    return PyErr_Format(PyExc_TypeError, "kernel %s takes %zd arguments behind its %zd of the launch, not %zd",
                        launcher.facts->name.c_str(), wanted - kBefore, kBefore, count - kBefore);
  }
  long grid[3];
  for (int axis = 0; axis < 3; ++axis) {
    grid[axis] = PyLong_AsLong(values[axis]);
    if (grid[axis] == -1 && PyErr_Occurred()) return nullptr;
  }
  uint64_t stream, kernel;
  if (!pointer_of(values[3], stream) || !pointer_of(values[4], kernel)) return nullptr;
  if (!run_hook(values[7], values, count)) return nullptr;
  unsigned long blocks = static_cast<unsigned long>(grid[0] * grid[1] * grid[2]);
  if (blocks == 0) Py_RETURN_NONE;
  PyObject* workspace = nullptr;  // torch_npu's allocator keeps what is freed for later work of the same stream
  uint64_t workspace_address = 0;
  if (launcher.facts->workspace_bytes > 0) {
    workspace = PyObject_CallFunction(launcher.workspace_of, "k", launcher.facts->workspace_bytes * blocks);
    if (!workspace || !pointer_of(workspace, workspace_address)) {
      Py_XDECREF(workspace);
      return nullptr;
    }
  }
  Packed packed(*launcher.facts, workspace_address);
  bool good = true;
  for (size_t i = 0; good && i < launcher.arguments->size(); ++i)
    good = push(packed, (*launcher.arguments)[i], values[kBefore + i]);
  for (long length : grid) packed.push(static_cast<int32_t>(length));
  good = good && enqueue(launcher, reinterpret_cast<void*>(kernel), reinterpret_cast<void*>(stream), blocks,
                         std::move(packed));
  Py_XDECREF(workspace);
  if (!good || !run_hook(values[8], values, count)) return nullptr;
  Py_RETURN_NONE;
}

// -- the type --------------------------------------------------------------------------------------------------------
// Launcher(name, kinds, skipped, workspace_of, workspace_bytes, most_blocks, synchronises, task_type, mix_ratio)
PyObject* create(PyTypeObject* type, PyObject* values, PyObject*) {
  const char *name, *kinds;
  PyObject *skipped, *workspace_of;
  long workspace_bytes;
  unsigned most_blocks, task_type, mix_ratio;
  int synchronises;
  if (!PyArg_ParseTuple(values, "ssO!OlIpII", &name, &kinds, &PyTuple_Type, &skipped, &workspace_of, &workspace_bytes,
                        &most_blocks, &synchronises, &task_type, &mix_ratio))
    return nullptr;
  Py_ssize_t count = static_cast<Py_ssize_t>(std::strlen(kinds));
  if (PyTuple_GET_SIZE(skipped) != count || std::strspn(kinds, "PbhiIqQfd") != static_cast<size_t>(count))
    return PyErr_Format(PyExc_ValueError, "kinds %s for %zd arguments", kinds, PyTuple_GET_SIZE(skipped));
  Launcher* self = reinterpret_cast<Launcher*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->call = launch;
  self->facts = new ascend::KernelFacts{name, workspace_bytes, most_blocks, synchronises != 0,
                                        static_cast<profiling::TaskType>(task_type), mix_ratio};
  self->arguments = new std::vector<Argument>;
  for (Py_ssize_t i = 0; i < count; ++i)
    self->arguments->push_back({kinds[i], PyObject_IsTrue(PyTuple_GET_ITEM(skipped, i)) == 1});
  self->workspace_of = Py_NewRef(workspace_of);
  return reinterpret_cast<PyObject*>(self);
}

void destroy(PyObject* object) {
  Launcher* self = reinterpret_cast<Launcher*>(object);
  delete self->facts;
  delete self->arguments;
  Py_XDECREF(self->workspace_of);
  Py_TYPE(object)->tp_free(object);
}

PyTypeObject launcher_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_launcher", nullptr, -1, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__launcher() {
  if (const char* missing = ascend::install_runtime())
    return PyErr_Format(PyExc_ImportError, "CANN's runtime has no function %s", missing);
  data_ptr_name = PyUnicode_InternFromString("data_ptr");
  launcher_type.tp_name = "inductor_npu.ascend_chip._launcher.Launcher";
  launcher_type.tp_basicsize = sizeof(Launcher);
  launcher_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  launcher_type.tp_vectorcall_offset = offsetof(Launcher, call);
  launcher_type.tp_call = PyVectorcall_Call;
  launcher_type.tp_new = create;
  launcher_type.tp_dealloc = destroy;
  PyObject* made = PyModule_Create(&module);
  if (!made || PyType_Ready(&launcher_type) < 0) return nullptr;
  Py_INCREF(&launcher_type);
  if (PyModule_AddObject(made, "Launcher", reinterpret_cast<PyObject*>(&launcher_type)) < 0) return nullptr;
  return made;
}
