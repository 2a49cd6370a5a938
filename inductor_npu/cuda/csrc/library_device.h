// On a GPU, PyTorch's CUDA operators compute on memory of npu, in the order of its streams.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>

#include <array>
#include <string_view>

namespace inductor_npu::library {

inline constexpr c10::DeviceType kDevice = c10::DeviceType::CUDA;
inline constexpr c10::DispatchKey kDense = c10::DispatchKey::CUDA;
inline constexpr c10::DispatchKey kSparse = c10::DispatchKey::SparseCUDA;
inline constexpr c10::DispatchKey kCompressed = c10::DispatchKey::SparseCsrCUDA;
inline constexpr c10::DispatchKey kQuantised = c10::DispatchKey::QuantizedCUDA;
inline constexpr c10::DispatchKey kNested = c10::DispatchKey::NestedTensorCUDA;
inline constexpr bool kKeepsLayouts = true;
inline constexpr bool kQueues = true;
inline constexpr bool kIsTraced = true;  // by CUPTI
// cuSOLVER refuses to be captured in these, and fails once more in the next call that is not.
inline constexpr std::array<std::string_view, 2> kNotCaptured = {"aten::_linalg_eigh", "aten::linalg_ldl_factor_ex"};

}  // namespace inductor_npu::library
