#include "kernel.h"

#include <c10/util/Exception.h>

#include "runtime.h"

namespace inductor_npu {

const Kernel* kernel_from_handle(uint64_t handle) noexcept {
  if (handle < 4096 || handle % alignof(Kernel) != 0) {
    return nullptr;
  }
  const auto* kernel = reinterpret_cast<const Kernel*>(handle);
  return kernel->magic == Kernel::kMagic ? kernel : nullptr;
}

bool set_grid(Launch& launch, const int64_t (&extents)[3]) {
  for (int axis = 0; axis < 3; ++axis) {
    TORCH_CHECK_VALUE(extents[axis] >= 0, "kernel ", launch.kernel->name, ": axis ", axis,
                      " of its grid is negative: ", extents[axis]);
  }
  if (extents[0] == 0 || extents[1] == 0 || extents[2] == 0) {
    return false;
  }
  const int64_t limit = configuration().max_grid;
  launch.programs = 1;
  for (int axis = 0; axis < 3; ++axis) {
    // One axis after the other, so that the product cannot overflow.
    TORCH_CHECK(extents[axis] <= limit / launch.programs, "kernel ", launch.kernel->name, ": its grid (", extents[0],
                ", ", extents[1], ", ", extents[2], ") has more programs than the limit of ", limit, " of ",
                configuration().target,
                ". Launch fewer programs: let each loop over several tiles, or use larger blocks");
    launch.programs *= extents[axis];
    launch.grid[axis] = static_cast<int32_t>(extents[axis]);
  }
  return true;
}

}  // namespace inductor_npu
