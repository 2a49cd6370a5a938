// Operators that other devices have for types for which the CPU has no kernel: computed in a wider type.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

namespace c10 {
class OperatorHandle;
}

namespace inductor_npu {

// Narrow floating types have a wider one for every operator; for others that is a matter of the operator.
enum class WidenedTypes { kFloats, kIntegers, kBooleans, kUnsigned };

// Which types an operator of this name may be given in a wider type.
WidenedTypes widened_types(const std::string& op);

// Whether some argument of a call has a type that a wider one can stand in for.
bool has_narrow_types(c10::ArrayRef<c10::IValue> args, WidenedTypes types);

// Whether the CPU's kernel raised `error` because it has no code for the type of an argument. It raises before it
// computes.
bool lacks_kernel_of_type(const c10::Error& error);

// Runs the kernel for `kernels` on `args`, CPU tensors, whose narrow types are made wider: half and bfloat16 float,
// complex half complex float, and, where `types` says so, integers double, booleans bytes, and unsigned integers of 16
// and 32 bits signed ones of twice as many. Leaves the results on `stack`, in the types that a kernel of the narrow
// types gives, and what is written in place in the arguments. False, with nothing done, if a wider type would not hold
// an argument's values.
bool run_in_wider_types(const c10::OperatorHandle& op, c10::DispatchKeySet kernels, c10::ArrayRef<c10::IValue> args,
                        WidenedTypes types, torch::jit::Stack* stack);

}  // namespace inductor_npu
