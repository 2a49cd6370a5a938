// The runtime as the operators see it: devices, streams, work, memory. Everything here is thread-safe.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "driver.h"

namespace inductor_npu {

constexpr c10::DeviceType kNpu = c10::DeviceType::PrivateUse1;
constexpr int kMaxDevices = 8;

// --- Devices (device.cpp) --------------------------------------------------------------------------------------------

// What Python tells about the chip before the first use (`_C.configure`).
struct Configuration {
  std::string target;       // the chip's name, for messages
  int device_count = 0;     // 0: not configured yet
  size_t memory_bytes = 0;  // capacity of each device
  int vector_cores = 0;     // most programs at a time
  int64_t max_grid = 0;     // most programs of a launch
  // For messages: what the user does to have more devices, or more memory; and why, though the capacity is not used up,
  // there is none.
  std::string more_devices, more_memory, no_more_memory;
};
void configure(const Configuration& configuration);
const Configuration& configuration() noexcept;

// Opens the device for this process, or raises if that cannot be: not configured, or forked from a process that had
// opened it.
void ensure_open();
bool is_open() noexcept;
bool is_in_bad_fork() noexcept;

c10::DeviceIndex device_count() noexcept;
c10::DeviceIndex current_device() noexcept;
// Raises an error that names the valid indices.
void check_device(int device);
// `device`, checked; the current device for -1.
c10::DeviceIndex resolve_device(c10::DeviceIndex device);
void set_device(c10::DeviceIndex device);
c10::DeviceIndex exchange_device(c10::DeviceIndex device);

// --- Streams (streams.cpp) -------------------------------------------------------------------------------------------

// `device` -1 is the current device, everywhere.
c10::Stream default_stream(c10::DeviceIndex device = -1);
c10::Stream current_stream(c10::DeviceIndex device = -1);
// Makes `stream` this thread's current stream of its device; returns the one before.
c10::Stream exchange_stream(c10::Stream stream);
// One of the streams of a fixed pool, in turn. priority < 0 is high.
c10::Stream stream_from_pool(c10::DeviceIndex device = -1, int priority = 0);
// A stream that is nobody else's until it is given back: what is queued on it may wait for other processes without
// holding up anybody. Nothing if all are taken.
std::optional<c10::Stream> take_stream(c10::DeviceIndex device = -1);
// Work that is still queued comes before that of the next owner.
void give_back_stream(c10::Stream stream) noexcept;
int stream_priority(c10::Stream stream);
driver::Stream* native(c10::Stream stream);
// The stream whose native handle is `handle` (0: the current one); raises if there is none.
driver::Stream* native_from_handle(uint64_t handle);

// Each waits, then raises the first failure of the work waited for as a RuntimeError that names the operator or kernel.
void synchronize_stream(c10::Stream stream);
void synchronize_device(c10::DeviceIndex device = -1);
// The same of the current stream of `device`, for what touches device memory on the calling thread. Cheap when nothing is
// queued.
void synchronize_stream_of(c10::DeviceIndex device);
bool query_stream(c10::Stream stream);
// Whether no stream of `device` has work left.
bool query_device(c10::DeviceIndex device);
// Raises the first failure of work on `stream`, if there was one, and forgets it.
void raise_failure(driver::Stream* stream);
// Waits for all streams of `device`; failures stay with their streams.
void wait_for_all_streams(c10::DeviceIndex device);

// Queues a copy of bytes between any two of device and host memory; the caller keeps host memory alive
// (record_pinned_use).
void copy_async(c10::Stream stream, void* destination, const void* source, size_t bytes);

// --- Memory (allocator.cpp, pinned.cpp) ------------------------------------------------------------------------------

bool is_npu_pointer(const void* pointer);
// The device whose memory `pointer` lies in; -1 if none.
c10::DeviceIndex device_of_pointer(const void* pointer);
bool is_pinned_pointer(const void* pointer);
// Pinned memory at `pointer` (with its DataPtr's context) is not reused before `stream` has done the work queued so
// far.
bool record_pinned_use(void* pointer, void* context, c10::Stream stream);

// --- Autograd (backward_passes.cpp) ----------------------------------------------------------------------------------

// Waits until PyTorch's threads for this device have done the backward passes given to them so far and have let go of
// them. The caller must not hold Python's lock. False if that took longer than `limit`.
bool finish_backward_passes(std::chrono::seconds limit);

// --- Observation (observer.cpp) --------------------------------------------------------------------------------------

// The call that asked for a piece of work. All 0 but the time unless the time line is recorded (timeline.h).
struct WorkOrigin {
  int64_t queued_ns = 0;
  uint32_t flow = 0;           // a number of the call itself
  uint64_t inner = 0;          // the profiler's number of the innermost operator or named range that it is in
  uint64_t range = 0;          // the same of the innermost range
  const char* copy = nullptr;  // of a copy: from where to where
};

// One piece of queued work that ran. Times are std::chrono::steady_clock, in nanoseconds.
struct WorkRecord {
  const char* name;
  int device;
  int stream_id;
  int64_t begin_ns, end_ns;
  WorkOrigin origin;
  WorkKind kind;
  std::array<int32_t, 3> grid;                           // of a kernel launch; 0 for other work, as the next
  int64_t programs;
  int64_t bytes_read, bytes_written, vector_operations;  // as counted by a kernel's record variant; else 0
  void* destination;                                     // of a copy, as the next two
  const void* source;
  int64_t copied_bytes;
};
// Called on the stream's worker after each piece of work. Must not throw and must not use the device.
using WorkObserver = void (*)(const WorkRecord& record);
void add_work_observer(WorkObserver observer);
void remove_work_observer(WorkObserver observer) noexcept;

// --- Operators (fallback.cpp) ----------------------------------------------------------------------------------------

// Where the library has a kernel of its own for an operator, makes it the npu's. Called once all operators of this library
// are registered, by whoever loads it; calling it again does nothing.
void prefer_library_kernels();

}  // namespace inductor_npu
