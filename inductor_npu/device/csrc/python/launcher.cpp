// _C.KernelLauncher: from a Python call to a queued launch. On the path of every kernel, hence written against Python's
// C API.
#include <torch/csrc/python_headers.h>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <c10/util/SmallVector.h>
#include <structmember.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/object_ptr.h>

#include <cstring>
#include <string>
#include <string_view>

#include "graph.h"
#include "kernel.h"
#include "python/bindings.h"
#include "runtime.h"

namespace inductor_npu {
namespace {

// grid_x, grid_y, grid_z, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook, then the kernel's
// arguments.
enum Position {
  kGrid = 0,
  kStream = 3,
  kFunction,
  kPackedMetadata,
  kLaunchMetadata,
  kEnterHook,
  kExitHook,
  kFirstArgument
};

constexpr std::string_view kArgumentKinds = "pbchilBCHILeyfd-";

struct KernelLauncher {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  std::string signature;
};

// Thrown after a Python error is set.
struct PythonErrorSet {};

template <class T>
uint64_t to_slot(T value) {
  uint64_t slot = 0;
  std::memcpy(&slot, &value, sizeof(value));
  return slot;
}

// --- Arguments -------------------------------------------------------------------------------------------------------

int64_t as_integer(PyObject* object) {
  const int64_t value = PyLong_AsLongLong(object);  // follows __index__
  if (C10_UNLIKELY(value == -1 && PyErr_Occurred())) {
    throw PythonErrorSet();
  }
  return value;
}

uint64_t as_unsigned(PyObject* object) {
  if (C10_LIKELY(PyLong_Check(object))) {
    const uint64_t value = PyLong_AsUnsignedLongLongMask(object);
    if (C10_UNLIKELY(value == static_cast<uint64_t>(-1) && PyErr_Occurred())) {
      throw PythonErrorSet();
    }
    return value;
  }
  return static_cast<uint64_t>(as_integer(object));
}

double as_float(PyObject* object) {
  const double value = PyFloat_AsDouble(object);
  if (C10_UNLIKELY(value == -1.0 && PyErr_Occurred())) {
    throw PythonErrorSet();
  }
  return value;
}

template <class T>
uint64_t integer_slot(PyObject* object, const Kernel& kernel, size_t index) {
  const int64_t value = as_integer(object);
  TORCH_CHECK_VALUE(value == static_cast<int64_t>(static_cast<T>(value)), "kernel ", kernel.name, ": argument ", index,
                    " is ", value, ", which does not fit its type of ", 8 * sizeof(T), " bits");
  return to_slot(static_cast<T>(value));
}

uint64_t tensor_slot(PyObject* object, const Kernel& kernel, size_t index) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  TORCH_CHECK_VALUE(tensor.device().type() == kNpu, "kernel ", kernel.name, ": argument ", index, " is a tensor on ",
                    tensor.device(),
                    ", but a kernel for npu reads and writes memory of npu only; move it with .to(\"npu\")");
  return reinterpret_cast<uint64_t>(tensor.mutable_data_ptr());
}

// Any other object with data_ptr(), such as Triton's TensorWrapper.
uint64_t wrapper_slot(PyObject* object, const Kernel& kernel, size_t index) {
  PyObject* result = PyObject_CallMethod(object, "data_ptr", nullptr);
  if (result == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) != 0) {
      PyErr_Clear();
      TORCH_CHECK_TYPE(false, "kernel ", kernel.name, ": argument ", index,
                       " is a pointer; expected a tensor on npu, None, an int or an "
                       "object with data_ptr(), got ",
                       Py_TYPE(object)->tp_name);
    }
    throw PythonErrorSet();
  }
  const THPObjectPtr owner(result);
  const uint64_t address = as_unsigned(result);
  TORCH_CHECK_VALUE(address == 0 || is_npu_pointer(reinterpret_cast<const void*>(address)), "kernel ", kernel.name,
                    ": argument ", index, " (", Py_TYPE(object)->tp_name,
                    ") does not point to memory of npu; move it with .to(\"npu\")");
  return address;
}

uint64_t pointer_slot(PyObject* object, const Kernel& kernel, size_t index) {
  if (C10_LIKELY(THPVariable_Check(object))) {
    return tensor_slot(object, kernel, index);
  }
  if (object == Py_None) {
    return 0;
  }
  return PyLong_Check(object) ? as_unsigned(object) : wrapper_slot(object, kernel, index);
}

uint64_t argument_slot(char kind, PyObject* object, const Kernel& kernel, size_t index) {
  switch (kind) {
    case 'p': return pointer_slot(object, kernel, index);
    case 'i': return integer_slot<int32_t>(object, kernel, index);
    case 'l': return static_cast<uint64_t>(as_integer(object));
    case 'f': return to_slot(static_cast<float>(as_float(object)));
    case 'd': return to_slot(as_float(object));
    case 'e': return to_slot(c10::Half(static_cast<float>(as_float(object))).x);
    case 'y': return to_slot(c10::BFloat16(static_cast<float>(as_float(object))).x);
    case 'b':
    case 'B': return as_integer(object) != 0;
    case 'c': return integer_slot<int8_t>(object, kernel, index);
    case 'h': return integer_slot<int16_t>(object, kernel, index);
    case 'C': return integer_slot<uint8_t>(object, kernel, index);
    case 'H': return integer_slot<uint16_t>(object, kernel, index);
    case 'I': return integer_slot<uint32_t>(object, kernel, index);
    default: return as_unsigned(object);  // 'L': the constructor admits no other kind
  }
}

// --- The call --------------------------------------------------------------------------------------------------------

const Kernel& kernel_of(PyObject* function) {
  const Kernel* kernel = kernel_from_handle(as_unsigned(function));
  TORCH_CHECK_VALUE(kernel != nullptr, "KernelLauncher: the function is not the handle of a kernel that was loaded in this process");
  return *kernel;
}

// Reads the grid into `launch`. False if it is empty.
bool read_grid(PyObject* const* args, Launch& launch) {
  return set_grid(launch, {as_integer(args[kGrid]), as_integer(args[kGrid + 1]), as_integer(args[kGrid + 2])});
}

// Tells a graph that is being captured which memory the launch will use each time.
void note_pointers(CapturedGraph& graph, const Kernel& kernel, const std::string& signature,
                   c10::ArrayRef<uint64_t> slots) {
  size_t slot = 0;
  for (const char kind : signature) {
    if (kind == 'p') {
      graph.uses(reinterpret_cast<const void*>(slots[slot]), "kernel " + kernel.name);
    }
    slot += kind != '-' ? 1 : 0;
  }
}

// Triton's hooks, from 3.5 on, are objects that are there even when they hold no function. Calling such a one takes
// longer than the launch.
bool holds_nothing(PyObject* hook) {
  static PyObject* const name = PyUnicode_InternFromString("calls");
  const THPObjectPtr calls(PyObject_GetAttr(hook, name));
  if (!calls) {
    PyErr_Clear();  // another kind of hook
    return false;
  }
  return PyList_CheckExact(calls.get()) && PyList_GET_SIZE(calls.get()) == 0;
}

void call_hook(PyObject* hook, PyObject* launch_metadata) {
  if (hook != Py_None && !holds_nothing(hook)) {
    const THPObjectPtr result(PyObject_CallOneArg(hook, launch_metadata));
    if (!result) {
      throw PythonErrorSet();
    }
  }
}

void launch_from_python(const KernelLauncher& launcher, PyObject* const* args, size_t count) {
  const std::string& signature = launcher.signature;
  TORCH_CHECK_TYPE(count == kFirstArgument + signature.size(), "KernelLauncher takes ",
                   static_cast<int>(kFirstArgument), " arguments and ", signature.size(), " of the kernel (signature '",
                   signature, "'), got ", count, " in all");
  const Kernel& kernel = kernel_of(args[kFunction]);
  ensure_open();
  Launch launch{};
  launch.kernel = &kernel;
  if (!read_grid(args, launch)) {
    return;
  }
  driver::Stream* stream = native_from_handle(as_unsigned(args[kStream]));
  c10::SmallVector<uint64_t, 24> slots;
  for (size_t i = 0; i < signature.size(); ++i) {
    if (signature[i] != '-') {
      slots.push_back(argument_slot(signature[i], args[kFirstArgument + i], kernel, i));
    }
  }
  if (CapturedGraph* graph = capturing_graph(stream); C10_UNLIKELY(graph != nullptr)) {
    note_pointers(*graph, kernel, signature, slots);
  }
  launch.args = slots.data();
  launch.arg_count = slots.size();
  call_hook(args[kEnterHook], args[kLaunchMetadata]);
  driver::launch(stream, launch);
  call_hook(args[kExitHook], args[kLaunchMetadata]);
}

PyObject* launcher_vectorcall(PyObject* self, PyObject* const* args, size_t count_and_flags, PyObject* keywords) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(keywords == nullptr || PyTuple_GET_SIZE(keywords) == 0, "KernelLauncher takes no keyword arguments");
  try {
    launch_from_python(*reinterpret_cast<KernelLauncher*>(self), args, PyVectorcall_NARGS(count_and_flags));
  } catch (const PythonErrorSet&) {
    return nullptr;
  }
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

// --- The type --------------------------------------------------------------------------------------------------------

PyObject* launcher_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  HANDLE_TH_ERRORS
  static const char* names[] = {"signature", nullptr};
  const char* signature = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "s:KernelLauncher", const_cast<char**>(names), &signature)) {
    return nullptr;
  }
  for (const char* kind = signature; *kind != '\0'; ++kind) {
    TORCH_CHECK_VALUE(kArgumentKinds.find(*kind) != std::string_view::npos, "KernelLauncher: '", *kind,
                      "' in signature '", signature, "' is not a kind of argument; known are ", kArgumentKinds);
  }
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) {
    auto* launcher = reinterpret_cast<KernelLauncher*>(self);
    new (&launcher->signature) std::string(signature);
    launcher->vectorcall = launcher_vectorcall;
  }
  return self;
  END_HANDLE_TH_ERRORS
}

void launcher_dealloc(PyObject* self) {
  reinterpret_cast<KernelLauncher*>(self)->signature.~basic_string();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef launcher_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(KernelLauncher, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot launcher_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(launcher_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(launcher_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, launcher_members},
    {Py_tp_doc,
     const_cast<char*>("KernelLauncher(signature)\n--\n\nQueues launches of kernels whose arguments have the kinds in "
                       "`signature`.\n\n"
                       "Call it as Triton calls launchers: (grid_x, grid_y, grid_z, stream, function, packed_metadata, "
                       "launch_metadata,\n"
                       "enter_hook, exit_hook, *args). One character an argument: p pointer; b i1; c, h, i, l signed "
                       "of 8 to 64 bits,\n"
                       "upper case unsigned; e fp16; y bf16; f fp32; d fp64; - skipped. Raises ValueError for a tensor "
                       "that is not on\n"
                       "npu, RuntimeError for a grid above the target's limit; an empty grid does nothing.")},
    {0, nullptr},
};

PyType_Spec launcher_spec = {
    "inductor_npu.device._C.KernelLauncher", sizeof(KernelLauncher), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,   launcher_slots,
};

// get_raw_stream is called before each launch; a plain C function costs a third of a pybind one.
PyObject* get_raw_stream(PyObject* /*module*/, PyObject* device) {
  HANDLE_TH_ERRORS
  try {
    const int64_t index = as_integer(device);
    if (index != -1) {
      check_device(static_cast<int>(index));
    }
    return PyLong_FromUnsignedLongLong(
        reinterpret_cast<uint64_t>(native(current_stream(static_cast<c10::DeviceIndex>(index)))));
  } catch (const PythonErrorSet&) {
    return nullptr;
  }
  END_HANDLE_TH_ERRORS
}

PyMethodDef launcher_functions[] = {
    {"get_raw_stream", get_raw_stream, METH_O,
     "get_raw_stream(device)\n--\n\nThe handle of the device's current stream (-1: the current device), as launchers "
     "want it."},
    {nullptr, nullptr, 0, nullptr},
};

void add_launcher(void* module) {
  auto* m = static_cast<PyObject*>(module);
  THPObjectPtr type(PyType_FromSpec(&launcher_spec));
  if (!type || PyModule_AddObjectRef(m, "KernelLauncher", type.get()) != 0 ||
      PyModule_AddFunctions(m, launcher_functions) != 0) {
    throw python_error();
  }
}

const Bindings bindings(add_launcher);

}  // namespace
}  // namespace inductor_npu
