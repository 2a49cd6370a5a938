// The random number generator of device npu. Its state is a seed and an offset, as of the counter-based generators of
// other accelerators; each operator that draws gets a generator of the library made of both, and moves the offset on.
//
// In the capture of a graph nothing is drawn, and no state changes: what the program does to a generator (seeds, states
// that it asks for and sets again) becomes work of the graph, and each replay does it when its turn comes.
#pragma once

#include <ATen/core/Generator.h>

#include "runtime.h"

namespace inductor_npu {

// The device's default generator.
const at::Generator& default_generator(c10::DeviceIndex device = -1);
at::Generator new_generator(c10::DeviceIndex device = -1);

// A generator of the library for one operator that draws from `generator`.
at::Generator draw_from(const at::Generator& generator);

// While it lives, what this thread draws from the default generator of the device of `source` comes from `source`, if
// that is defined: a graph draws from the state that was the generator's when it was captured.
class DrawsFrom {
 public:
  explicit DrawsFrom(const at::Generator& source);
  ~DrawsFrom();
  DrawsFrom(const DrawsFrom&) = delete;
  DrawsFrom& operator=(const DrawsFrom&) = delete;

 private:
  const at::Generator* const previous_;
};

}  // namespace inductor_npu
