// Operators that run on the host's threads, between kernels: what they leave behind.
#pragma once

#include <cstdint>

namespace inductor_npu {

// Says that this thread is about to run an operator on PyTorch's threads.
void note_host_operator() noexcept;

// What a thread does before it queues kernels. After an operator, PyTorch's OpenMP threads wait for the next one
// spinning, for some milliseconds, on the cores on which programs of kernels are to run. They are let go of (starting
// new ones takes about 0.1 ms) once the kernels that this thread has queued since then take longer than that.
// `expected_ns`: how long what is queued took last time.
void make_room_for(int64_t expected_ns) noexcept;

}  // namespace inductor_npu
