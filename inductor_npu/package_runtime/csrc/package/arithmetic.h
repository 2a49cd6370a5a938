// Functions of sizes and other numbers that a program computes itself.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace inductor_npu::package {

using Function = c10::IValue (*)(const std::vector<c10::IValue>& operands);

// The function called `name`, as in inductor_npu/export/arithmetic.py, for `operands` operands. Throws PackageError.
Function function_called(const std::string& name, size_t operands);

}  // namespace inductor_npu::package
