// The device's configuration in a process without Python, and whether a package fits the process.
#pragma once

#include "package/json.h"

namespace inductor_npu::package {

// Throws PackageError where the package with this manifest is for another version, provider, target or processor.
void check_fits(const Json& manifest);

// Configures device npu for the manifest's target and the user's variables (INDUCTOR_NPU_SIM_DEVICES, _MEMORY and
// _THREADS), unless somebody has configured it. Throws PackageError for a variable that is none.
void configure_if_needed(const Json& manifest);

}  // namespace inductor_npu::package
