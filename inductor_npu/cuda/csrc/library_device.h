// On a GPU, PyTorch's CUDA operators compute on memory of npu, in the order of its streams.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>

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

}  // namespace inductor_npu::library
