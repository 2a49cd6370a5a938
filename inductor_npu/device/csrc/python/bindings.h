// How a file adds to the Python module _C.
#pragma once

namespace inductor_npu {

// A file that adds names owns one static Bindings whose function gets the module (a PyObject*) when Python imports it.
struct Bindings {
  explicit Bindings(void (*add)(void* module));
};

// What a runtime finishes at exit, before its streams are waited for; the function, called without Python's lock, says
// why and returns false where it cannot.
struct FinishAtExit {
  explicit FinishAtExit(bool (*finish)());
};

}  // namespace inductor_npu
