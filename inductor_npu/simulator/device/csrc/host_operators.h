// Operators that run on the host's threads, between kernels: what they leave behind.
#pragma once

#include "kernel.h"

namespace inductor_npu {

// Says that this thread is about to run an operator on PyTorch's threads.
void note_host_operator() noexcept;

// What a thread does before it queues `kernel`. After an operator, PyTorch's OpenMP threads wait for the next one
// spinning, for some milliseconds, on the cores on which programs of kernels are to run. They are let go of (starting
// new ones takes about 0.1 ms) once the kernels that this thread has queued since then take longer than that.
void make_room_for(const Kernel& kernel) noexcept;

}  // namespace inductor_npu
