// The random number generator of device npu. It draws from a CPU generator of its own, so that a CPU kernel run for an
// npu tensor can draw from the very same state.
#pragma once

#include <ATen/core/Generator.h>

#include "runtime.h"

namespace inductor_npu {

// The device's default generator.
const at::Generator& default_generator(c10::DeviceIndex device = -1);
at::Generator new_generator(c10::DeviceIndex device = -1);

// The CPU generator inside `generator`: drawing from one advances the other. The lock to hold is that of the CPU
// generator.
at::Generator cpu_twin(const at::Generator& generator);

}  // namespace inductor_npu
