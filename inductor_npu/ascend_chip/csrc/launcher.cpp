// Launches the kernels of Ascend's Triton on torch_npu's streams: one callable type for kernels of any signature.
//
// Ascend's Triton writes and compiles a C++ module for each signature, which takes a compiler 6 to 10 s. What differs
// between signatures is how arguments are packed; here that is data. Neither torch's nor CANN's headers are needed: of
// torch_npu one function is called, of CANN a few of C, which are looked up when the module is imported.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "profiling.h"

namespace at_npu {
namespace native {
// Of torch_npu/csrc/framework/OpCommand.h: runs `func` when torch_npu's queue of operators comes to it, at once where
// TASK_QUEUE_ENABLE=0. Its result is an error code of CANN.
class OpCommand {
 public:
  static void RunOpApiV2(const std::string& name, const std::function<int()>& func, bool sync);
};
}  // namespace native
}  // namespace at_npu

namespace {

// -- CANN's runtime (rt.h) -------------------------------------------------------------------------------------------
struct Runtime {
  int (*launch)(const void* kernel, uint32_t blocks, void* arguments, uint32_t bytes, void* description, void* stream);
  int (*synchronisation_address)(uint64_t* address, uint32_t* length);
} runtime;

void* function_of_cann(const char* name) {
  // Loaded by torch_npu already; which of them has a function depends on CANN's version.
  for (const char* library : {"libruntime.so", "libascendcl.so", "libprofapi.so"})
    if (void* handle = dlopen(library, RTLD_NOW))
      if (void* found = dlsym(handle, name)) return found;
  return nullptr;
}

template <typename Function>
bool find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(function_of_cann(name));
  if (!function) PyErr_Format(PyExc_ImportError, "CANN's runtime has no function %s", name);
  return function != nullptr;
}

// -- a kernel's launcher ---------------------------------------------------------------------------------------------
// How an argument of Python becomes bytes of the kernel's. `skipped` ones are constants that the compiler knows.
struct Argument {
  char kind;  // P pointer, b h i q signed of 1 2 4 8 bytes, I Q unsigned of 4 8, f d floating-point of 4 8
  bool skipped;
};

struct Launcher {
  PyObject_HEAD
  vectorcallfunc call;
  std::string* name;
  std::vector<Argument>* arguments;
  PyObject* workspace_of;  // bytes -> tensor of the device
  long workspace_bytes;    // of a block
  unsigned most_blocks;    // 0: no limit
  bool synchronises;       // its first argument is an address for synchronisation between cores
  profiling::TaskType task_type;
  unsigned mix_ratio;  // vector cores per cube core of a mixed kernel, for the profiler
};

// Arguments in the order and at the offsets that generate_npu_wrapper_src of Ascend's Triton packs them.
class Packed {
 public:
  template <typename T>
  void push(T value, size_t alignment = alignof(T)) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    const char* begin = reinterpret_cast<const char*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
  }
  // All bytes, to the size of a struct that holds pointers.
  std::vector<char> take() {
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    return std::move(bytes_);
  }

 private:
  std::vector<char> bytes_;
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
  T narrow = static_cast<T>(number);
  if (static_cast<long long>(narrow) != number) {
    PyErr_Format(PyExc_OverflowError, "%lld does not fit an argument of %zu bytes", number, sizeof(T));
    return false;
  }
  if (!skipped) packed.push(narrow, std::max<size_t>(sizeof(T), 4));
  return true;
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

// Queues the launch. What the handler holds is freed by the thread that runs it, which knows nothing of Python.
bool enqueue(const Launcher& launcher, const void* kernel, void* stream, unsigned blocks, std::vector<char> packed) {
  auto launch = [kernel, stream, blocks, packed = std::move(packed), synchronises = launcher.synchronises,
                 report = profiling::Report{*launcher.name, launcher.task_type, launcher.mix_ratio}]() -> int {
    std::vector<char> bytes = packed;
    if (synchronises) {
      uint64_t address;
      uint32_t length;
      if (int error = runtime.synchronisation_address(&address, &length)) return error;
      std::memcpy(bytes.data(), &address, sizeof address);
    }
    profiling::Launch reported(report, blocks);
    return runtime.launch(kernel, blocks, bytes.data(), static_cast<uint32_t>(bytes.size()), nullptr, stream);
  };
  std::string failure;
  Py_BEGIN_ALLOW_THREADS;
  try {
    at_npu::native::OpCommand::RunOpApiV2(*launcher.name, launch, false);
  } catch (const std::exception& error) {
    failure = error.what();
    if (failure.empty()) failure = "unknown error";
  }
  Py_END_ALLOW_THREADS;
  if (!failure.empty()) PyErr_Format(PyExc_RuntimeError, "launch of %s: %s", launcher.name->c_str(), failure.c_str());
  return failure.empty();
}

// (grid x, y, z, stream, kernel, packed metadata, launch metadata, enter hook, exit hook, *the kernel's arguments)
constexpr Py_ssize_t kBefore = 9;

PyObject* launch(PyObject* self, PyObject* const* values, size_t flags, PyObject* names) {
  const Launcher& launcher = *reinterpret_cast<Launcher*>(self);
  Py_ssize_t count = PyVectorcall_NARGS(flags);
  Py_ssize_t wanted = kBefore + static_cast<Py_ssize_t>(launcher.arguments->size());
  if (count != wanted || (names && PyTuple_GET_SIZE(names))) {
    return PyErr_Format(PyExc_TypeError, "kernel %s takes %zd arguments behind its %zd of the launch, not %zd",
                        launcher.name->c_str(), wanted - kBefore, kBefore, count - kBefore);
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
  if (launcher.workspace_bytes > 0) {
    workspace = PyObject_CallFunction(launcher.workspace_of, "k", launcher.workspace_bytes * blocks);
    if (!workspace || !pointer_of(workspace, workspace_address)) {
      Py_XDECREF(workspace);
      return nullptr;
    }
  }
  Packed packed;
  if (launcher.synchronises) packed.push<uint64_t>(0);
  packed.push<uint64_t>(0);  // a lock between blocks, for kernels that have a launcher of their own
  packed.push(workspace_address);
  bool good = true;
  for (size_t i = 0; good && i < launcher.arguments->size(); ++i)
    good = push(packed, (*launcher.arguments)[i], values[kBefore + i]);
  for (long length : grid) packed.push(static_cast<int32_t>(length));
  unsigned most = launcher.most_blocks ? launcher.most_blocks : ~0u;
  good = good && enqueue(launcher, reinterpret_cast<void*>(kernel), reinterpret_cast<void*>(stream),
                         static_cast<unsigned>(std::min<unsigned long>(blocks, most)), packed.take());
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
  self->name = new std::string(name);
  self->arguments = new std::vector<Argument>;
  for (Py_ssize_t i = 0; i < count; ++i)
    self->arguments->push_back({kinds[i], PyObject_IsTrue(PyTuple_GET_ITEM(skipped, i)) == 1});
  self->workspace_of = Py_NewRef(workspace_of);
  self->workspace_bytes = workspace_bytes;
  self->most_blocks = most_blocks;
  self->synchronises = synchronises != 0;
  self->task_type = static_cast<profiling::TaskType>(task_type);
  self->mix_ratio = mix_ratio;
  return reinterpret_cast<PyObject*>(self);
}

void destroy(PyObject* object) {
  Launcher* self = reinterpret_cast<Launcher*>(object);
  delete self->name;
  delete self->arguments;
  Py_XDECREF(self->workspace_of);
  Py_TYPE(object)->tp_free(object);
}

PyTypeObject launcher_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_launcher", nullptr, -1, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__launcher() {
  if (!find(runtime.launch, "rtKernelLaunch") || !find(runtime.synchronisation_address, "rtGetC2cCtrlAddr"))
    return nullptr;
  profiling::install(function_of_cann);
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
