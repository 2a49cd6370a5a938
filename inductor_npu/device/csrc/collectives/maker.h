// How a backend for device npu makes the backend of others that does the work.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>

namespace inductor_npu::collectives {

// Makes a backend for a group of `size` ranks, of which this process is `rank`. Raises where ranks do not find each
// other within `timeout`.
using Maker = std::function<c10::intrusive_ptr<c10d::Backend>(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                              int size, std::chrono::milliseconds timeout)>;

}  // namespace inductor_npu::collectives
