// The caching allocator of device memory, behind c10::DeviceAllocator.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <vector>

#include "runtime.h"

namespace inductor_npu {

// One piece of a segment, for memory_snapshot.
struct BlockSnapshot {
  uintptr_t address;
  size_t size, requested;
  const char* state;  // "active_allocated", "active_pending_free" or "inactive"
};
struct SegmentSnapshot {
  c10::DeviceIndex device;
  uintptr_t address;
  size_t size;
  c10::StreamId stream;
  bool small;
  std::vector<BlockSnapshot> blocks;
};

c10::DeviceAllocator* device_allocator();

// The most that the allocator may reserve on `device`, in bytes.
size_t memory_limit(c10::DeviceIndex device);
// Sets that limit to `fraction` (0 to 1) of the device's memory.
void set_memory_fraction(double fraction, c10::DeviceIndex device);
std::vector<SegmentSnapshot> memory_snapshot();

}  // namespace inductor_npu
