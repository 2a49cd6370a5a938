// What the runtime asks of a chip: memory, streams, events, copies, launches. Another chip is one more file that
// implements this header (the host's is driver_host.cpp). Everything above (allocator, guards, hooks, bindings) is
// written against these functions only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace inductor_npu {
struct Launch;  // kernel.h
}

namespace inductor_npu::driver {

struct Stream;  // an in-order queue of work; lives until the process ends
struct Event;   // a point in a stream's work

// --- Memory ----------------------------------------------------------------------------------------------------------

// Device memory of at least `bytes` bytes, aligned to 2 MiB; null when there is none left.
void* allocate(int device, size_t bytes);
void release(int device, void* memory, size_t bytes) noexcept;

// --- Streams ---------------------------------------------------------------------------------------------------------

Stream* create_stream(int device, int id, int priority);

// All work is queued. An exception that it throws is kept by the stream, together with the work's name, until
// take_error.
// `threads`: at most so many host threads share a large copy.
void copy(Stream* stream, void* destination, const void* source, size_t bytes, int threads);
void launch(Stream* stream, const Launch& launch);

// True if all work queued so far is done.
bool query(const Stream* stream) noexcept;
// Waits until all work queued so far is done. Does not raise: see take_error.
void synchronize(Stream* stream);
// The message of the first failure of queued work since the last call, or an empty string.
std::string take_error(Stream* stream);

// --- Events ----------------------------------------------------------------------------------------------------------

Event* create_event(bool timing);
void destroy(Event* event) noexcept;
void record(Event* event, Stream* stream);
// Later work of `stream` waits for what `event` recorded last.
void block(const Event* event, Stream* stream);
bool query(const Event* event) noexcept;
void synchronize(const Event* event);
// The stream that `event` was recorded on last, or null.
Stream* stream_of(const Event* event) noexcept;
bool has_timing(const Event* event) noexcept;
// Milliseconds between two recorded, completed events with timing.
double elapsed_ms(const Event* start, const Event* end);

// --- Around waits and work -------------------------------------------------------------------------------------------

// Called around each wait that may block, so that a thread that holds Python's lock gives it up meanwhile. Set once,
// when loaded.
struct WaitHooks {
  void* (*enter)();
  void (*leave)(void* state);
};
void set_wait_hooks(WaitHooks hooks) noexcept;

}  // namespace inductor_npu::driver
