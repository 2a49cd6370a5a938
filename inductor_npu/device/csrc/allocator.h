// The caching allocator of device memory, behind c10::DeviceAllocator.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "memory_history.h"
#include "runtime.h"

namespace inductor_npu {

// One piece of a segment, for memory_snapshot.
struct BlockSnapshot {
  uintptr_t address;
  size_t size, requested;
  const char* state;  // "active_allocated", "active_awaiting_free" or "inactive"
  uint64_t number;    // of the allocation, in order
  Stack stack;
};
struct SegmentSnapshot {
  c10::DeviceIndex device;
  uintptr_t address;
  size_t size;
  c10::StreamId stream;
  c10::MempoolId_t pool;  // {0, 0}: that of all
  bool small;
  Stack stack;
  std::vector<BlockSnapshot> blocks;
};

c10::DeviceAllocator* device_allocator();

// The most that the allocator may reserve on `device`, in bytes.
size_t memory_limit(c10::DeviceIndex device);
// Sets that limit to `fraction` (0 to 1) of the device's memory.
void set_memory_fraction(double fraction, c10::DeviceIndex device);
std::vector<SegmentSnapshot> memory_snapshot();

// What was done since the history was turned on, for each device; a snapshot of all is recorded as the last event.
struct HistorySnapshot {
  std::vector<SegmentSnapshot> segments;
  std::vector<std::vector<MemoryEvent>> events;
};
HistorySnapshot memory_history();
// Returns the settings before.
HistorySettings record_memory_history(const HistorySettings& settings, bool clear);
// How many allocations there were, on all devices.
uint64_t allocation_count();

// --- Memory that nobody has written ----------------------------------------------------------------------------------

// From here on each allocation is filled: NaN of every floating-point type, -1 of integers. For tests, which find so
// what reads memory that nobody has written.
void fill_allocations(bool on);
// Fills memory of the current stream in the same way.
void fill_as_fresh(void* memory, size_t bytes);

// --- Memory that other processes have, too (shared_memory.cpp) -------------------------------------------------------

// Memory of `descriptor` (driver.h), which is taken over, on the current stream. Raises OutOfMemoryError.
c10::DataPtr allocate_shared(int descriptor, c10::DeviceIndex device, size_t size);
// The descriptor of the memory that begins at `pointer`; -1 if other processes cannot have it. Valid while the memory
// is in use.
int descriptor_of(const void* pointer);

// --- Private pools ---------------------------------------------------------------------------------------------------

// Memory that only those get who allocate with its id: a captured graph, whose replays use the same addresses again and
// again, or whoever chose a torch.npu.MemPool.

// An id that nobody has; of the form of c10::MempoolId_t that graphs, or users, are given.
c10::MempoolId_t new_pool_id(bool by_user);
// The pool lives, and keeps its memory, as long as it has owners. Then what is free goes back to the host, after all
// work queued so far; what is still allocated follows with the next empty_cache.
void retain_pool(c10::DeviceIndex device, c10::MempoolId_t pool);
void release_pool(c10::DeviceIndex device, c10::MempoolId_t pool);
bool is_of_private_pool(const void* pointer);
int pool_owners(c10::DeviceIndex device, c10::MempoolId_t pool);

struct MemoryRange {
  const char* begin;
  size_t size;
};
// What streams of this capture allocate comes from `pool`, until end_route, which says what that was.
void route_capture(uint64_t capture, c10::MempoolId_t pool);
std::vector<MemoryRange> end_route(uint64_t capture);
// What this thread allocates outside of captures comes from `pool`; returns the one before. {0, 0}: from that of all.
c10::MempoolId_t exchange_thread_pool(c10::MempoolId_t pool);

// Learns that memory which it watches was freed.
struct MemoryWatch {
  std::atomic<bool> lost{false};
  std::mutex mutex;
  std::string message;  // what was freed first
};
// Watches the block that `pointer` lies in, unless it is null, of no block, or of `own_pool`. `reader`: for the message.
void watch_memory(const void* pointer, c10::MempoolId_t own_pool, const std::shared_ptr<MemoryWatch>& watch,
                  const std::string& reader);

}  // namespace inductor_npu
