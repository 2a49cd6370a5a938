// How many threads of the host compute for the device.
#pragma once

namespace inductor_npu {

// What the user asks for (INDUCTOR_NPU_SIM_THREADS); 0: as many as torch.get_num_threads().
void ask_for_host_threads(int count);

// Those that work queued now may use: as asked for, but no more than the chip has vector cores.
int host_threads();

}  // namespace inductor_npu
