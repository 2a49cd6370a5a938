// Names of types in packages.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace inductor_npu::package {

// The type that torch calls `name` ("float32"). Throws PackageError.
c10::ScalarType scalar_type(const std::string& name);
// How torch calls it.
std::string name_of(c10::ScalarType type);

}  // namespace inductor_npu::package
