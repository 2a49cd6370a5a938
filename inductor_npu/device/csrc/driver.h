// What the runtime asks of a chip: memory, streams, events, copies, launches, graphs. Another chip is one more file that
// implements this header (simulator/host/csrc/driver_host.cpp, cuda/csrc/driver_cuda.cpp). Everything above (allocator,
// guards, hooks, bindings) is written against these functions only, and against library.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace inductor_npu {
struct Launch;  // kernel.h

// Mark: an event's place among the work. Operator: of the library. Collective: with other processes. Replay: of a graph,
// whose work is told piece by piece.
enum class WorkKind { Mark, Kernel, Copy, Wait, Operator, Collective, Replay };
}  // namespace inductor_npu

namespace inductor_npu::driver {

struct Stream;  // an in-order queue of work; lives until the process ends
struct Event;   // a point in a stream's work

// --- Devices ---------------------------------------------------------------------------------------------------------

// Called once in a process, before anything else is asked. Raises if the devices cannot be used.
void open(int device_count);

// --- Memory ----------------------------------------------------------------------------------------------------------

// Device memory of at least `bytes` bytes, aligned to 512 bytes at least; null when there is none left.
void* allocate(int device, size_t bytes);
void release(int device, void* memory, size_t bytes) noexcept;

// Sets each byte to `value`, after the work queued so far, and before what the calling thread does next with the memory
// by an operator of the library. Queued like a copy, but told to nobody.
void fill(Stream* stream, void* memory, uint8_t value, size_t bytes);

// Memory that several processes can have. A file descriptor stands for it, and its owner closes it; the memory goes when
// the last process has released it and closed its descriptors, whoever made it.
// A descriptor of new memory, all 0; -1 when there is none left.
int create_shared(int device, size_t bytes);
// Whether a descriptor may stand for so many bytes.
bool is_shared(int descriptor, size_t bytes) noexcept;
// Its bytes in this process, to be given to `release`; null if that cannot be.
void* map_shared(int device, int descriptor, size_t bytes);

// Host memory, aligned to a page, that copies reach without waiting; null if there is none left.
void* allocate_pinned(size_t bytes);
void release_pinned(void* memory) noexcept;
// Whether copies reach memory of the host without waiting that somebody else has allocated, as another library does.
bool is_pinned_by_others(const void* memory) noexcept;

// What was done to device memory, for a driver that checks what kernels do to it.
// `bytes` from `memory` on are somebody's now; nobody has written them yet.
void note_allocated(const void* memory, size_t bytes);
void note_freed(const void* memory) noexcept;
// Somebody wrote them who is not a kernel.
void note_written(const void* memory, size_t bytes);
// The whole allocation that `memory` lies in: where it is not known which of its bytes were written.
void note_allocation_written(const void* memory);

// --- Streams ---------------------------------------------------------------------------------------------------------

Stream* create_stream(int device, int id, int priority);

// All work is queued. An exception that it throws is kept by the stream, together with the work's name, until
// take_error.
void copy(Stream* stream, void* destination, const void* source, size_t bytes);
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
// Later work of `stream` waits for what `event` recorded last. If that has failed, it is a failure of `stream`, too.
void block(const Event* event, Stream* stream);
bool query(const Event* event);
void synchronize(const Event* event);
// The stream that `event` was recorded on last, or null.
Stream* stream_of(const Event* event) noexcept;
bool has_timing(const Event* event) noexcept;
// Milliseconds between two recorded, completed events with timing.
double elapsed_ms(const Event* start, const Event* end);

// --- Graphs ----------------------------------------------------------------------------------------------------------

// Between begin_capture and end_capture, what is queued on `stream`, and on streams that wait for an event of it, is
// recorded instead of done. Events recorded meanwhile order work within the capture only: query, synchronize and
// elapsed_ms raise for them. Each raises std::runtime_error or c10::Error.
struct Graph;
struct DestroyGraph {
  void operator()(Graph* graph) const noexcept;  // waits for its replays
};
using OwnedGraph = std::unique_ptr<Graph, DestroyGraph>;

// The id of the new capture, never 0. `stream` must not capture already.
uint64_t begin_capture(Stream* stream);
// Raises, and forgets what was recorded, if work failed meanwhile or a stream that took part has not been waited for.
OwnedGraph end_capture(Stream* stream);
// The capture that `stream` takes part in; 0 for none. Cheap.
uint64_t capture_of(const Stream* stream) noexcept;
// There will be no graph, for this reason; end_capture says it.
void invalidate_capture(Stream* stream, const std::string& reason);

void replay(const OwnedGraph& graph, Stream* stream);
// The names of the work, in the order in which it runs.
std::vector<std::string> names(const OwnedGraph& graph);
}  // namespace inductor_npu::driver
