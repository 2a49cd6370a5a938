// The embedded NPU's memory is the host's: the CPU's operators compute on it, on the threads that call them.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>

#include <array>
#include <string_view>

namespace inductor_npu::library {

inline constexpr c10::DeviceType kDevice = c10::DeviceType::CPU;
inline constexpr c10::DispatchKey kDense = c10::DispatchKey::CPU;
inline constexpr c10::DispatchKey kSparse = c10::DispatchKey::SparseCPU;
inline constexpr c10::DispatchKey kCompressed = c10::DispatchKey::SparseCsrCPU;
inline constexpr c10::DispatchKey kQuantised = c10::DispatchKey::QuantizedCPU;
inline constexpr c10::DispatchKey kNested = c10::DispatchKey::NestedTensorCPU;
inline constexpr bool kKeepsLayouts = true;
inline constexpr bool kQueues = false;
inline constexpr bool kIsTraced = false;
inline constexpr std::array<std::string_view, 0> kNotCaptured = {};

}  // namespace inductor_npu::library
