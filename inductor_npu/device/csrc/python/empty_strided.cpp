// _C.empty_strided: allocates a tensor for compiled code. On the path of every intermediate result, hence written
// against Python's C API and past the dispatcher, as PyTorch does for the devices it knows.
#include <torch/csrc/python_headers.h>

#include <ATen/EmptyTensor.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_numbers.h>

#include "python/bindings.h"
#include "runtime.h"

namespace inductor_npu {
namespace {

using Sizes = c10::SmallVector<int64_t, 8>;

Sizes to_sizes(PyObject* tuple, const char* what) {
  TORCH_CHECK_TYPE(PyTuple_Check(tuple), "empty_strided: ", what, " must be a tuple of integers");
  Sizes sizes;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    sizes.push_back(THPUtils_unpackLong(PyTuple_GET_ITEM(tuple, i)));
  }
  return sizes;
}

PyObject* empty_strided(PyObject* /*module*/, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count == 3 && THPDtype_Check(args[2]), "empty_strided takes sizes, strides and a torch.dtype");
  ensure_open();
  const Sizes sizes = to_sizes(args[0], "sizes"), strides = to_sizes(args[1], "strides");
  return THPVariable_Wrap(at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(kNpu),
                                                            c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                            reinterpret_cast<THPDtype*>(args[2])->scalar_type));
  END_HANDLE_TH_ERRORS
}

PyMethodDef functions[] = {
    {"empty_strided", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(empty_strided)), METH_FASTCALL,
     "empty_strided(sizes, strides, dtype)\n--\n\nA tensor on the current device, its memory not initialised."},
    {nullptr, nullptr, 0, nullptr},
};

void add_empty_strided(void* module) {
  if (PyModule_AddFunctions(static_cast<PyObject*>(module), functions) != 0) {
    throw python_error();
  }
}

const Bindings bindings(add_empty_strided);

}  // namespace
}  // namespace inductor_npu
