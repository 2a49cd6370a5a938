// How a file adds names to the Python module _C.
#pragma once

namespace inductor_npu {

// A file that adds names owns one static Bindings whose function gets the module (a PyObject*) when Python imports it.
struct Bindings {
  explicit Bindings(void (*add)(void* module));
};

}  // namespace inductor_npu
