// The Python module _C: configuration, devices, streams; other files add to it (Bindings).
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include <pybind11/stl.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "allocator.h"
#include "generator.h"
#include "python/bindings.h"
#include "runtime.h"
#include "waits.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

std::vector<void (*)(void*)>& registered_bindings() {
  static std::vector<void (*)(void*)> instance;
  return instance;
}

// What a runtime has to finish before its streams are waited for; false if that cannot be waited for.
bool (*&finish_at_exit())() {
  static bool (*instance)() = nullptr;
  return instance;
}

// A thread that waits must not hold Python's lock: the work it waits for may need it (a callback, the end of a tensor).
void* give_up_python_lock() {
  return Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr;
}

void take_back_python_lock(void* state) {
  PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

// -1 is the current device where a function has such a default.
c10::DeviceIndex index_of(int device) {
  if (device != -1) {
    check_device(device);
  }
  return static_cast<c10::DeviceIndex>(device);
}

void add_device_functions(py::module_& m) {
  m.def(
      "configure",
      [](const std::string& target, int devices, size_t memory_bytes, int vector_cores, int64_t max_grid,
         const std::string& more_devices, const std::string& more_memory, const std::string& no_more_memory) {
        configure({target, devices, memory_bytes, vector_cores, max_grid, more_devices, more_memory, no_more_memory});
      },
      py::kw_only(), py::arg("target"), py::arg("devices"), py::arg("memory_bytes"), py::arg("vector_cores"),
      py::arg("max_grid"), py::arg("more_devices"), py::arg("more_memory"), py::arg("no_more_memory"),
      "Tells the facts of the chip, before its first use. The last three are for messages: what the user does to have "
      "more of them, and why there may be no memory though the capacity is not used up.");
  m.def("init", &ensure_open,
        "Opens the device in this process. Raises RuntimeError in a child forked after the parent opened it.");
  m.def("is_open", &is_open);
  m.def("_is_in_bad_fork", &is_in_bad_fork);
  m.def("device_count", [] { return static_cast<int>(device_count()); });
  m.def("current_device", [] { return static_cast<int>(current_device()); });
  m.def("set_device", [](int device) { set_device(index_of(device)); });
  m.def("exchange_device", [](int device) { return static_cast<int>(exchange_device(index_of(device))); });
  m.def("check_device", &check_device, "Raises RuntimeError, naming the valid indices, if there is no such device.");
  m.def(
      "synchronize", [](int device) { synchronize_device(index_of(device)); }, py::arg("device") = -1,
      "Waits for all work of the device, then raises the first failure.");
  m.def(
      "query", [](int device) { return query_device(index_of(device)); }, py::arg("device") = -1,
      "Whether the device has done all work queued so far.");
  m.def("default_generator", [](int device) {
    return py::reinterpret_steal<py::object>(THPGenerator_initDefaultGenerator(default_generator(index_of(device))));
  });
}

void add_stream_functions(py::module_& m) {
  m.def("current_stream", [](int device) { return current_stream(index_of(device)); }, py::arg("device") = -1);
  m.def("default_stream", [](int device) { return default_stream(index_of(device)); }, py::arg("device") = -1);
  m.def(
      "set_stream", [](c10::Stream stream) { return exchange_stream(stream); },
      "Makes it current; returns the one before.");
  m.def("stream_priority", &stream_priority);
}

constexpr std::chrono::seconds kLongestPassAtExit{10};  // as long as PyTorch waits for its threads

// Backward passes and queued work may run code that Python's end takes away, and work may have failed without anybody
// having looked.
void drain_at_exit() {
  if (!is_open()) {
    return;
  }
  try {
    const py::gil_scoped_release without_lock;
    if (!finish_backward_passes(kLongestPassAtExit)) {
      std::fprintf(stderr, "inductor-npu: at exit, a backward pass on npu still runs; Python ends without it\n");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "inductor-npu: at exit, cannot wait for backward passes on npu: %s\n", error.what());
  }
  {
    const py::gil_scoped_release without_lock;
    if (finish_at_exit() != nullptr && !finish_at_exit()()) {
      return;
    }
  }
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    try {
      synchronize_device(device);
    } catch (const c10::Error& error) {
      std::fprintf(stderr, "inductor-npu: at exit, work on npu:%d had failed: %s\n", static_cast<int>(device),
                   error.what_without_backtrace());
    }
  }
}

}  // namespace

Bindings::Bindings(void (*add)(void* module)) {
  registered_bindings().push_back(add);
}

FinishAtExit::FinishAtExit(bool (*finish)()) {
  finish_at_exit() = finish;
}

}  // namespace inductor_npu

PYBIND11_MODULE(_C, m) {
  using namespace inductor_npu;
  prefer_library_kernels();
  set_wait_hooks({give_up_python_lock, take_back_python_lock});
  add_device_functions(m);
  add_stream_functions(m);
  for (auto* add : registered_bindings()) {
    add(m.ptr());
  }
  py::module_::import("atexit").attr("register")(py::cpp_function(drain_at_exit));
}
