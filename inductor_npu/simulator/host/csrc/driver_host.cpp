// The host driver: device memory is host memory, a stream is a WorkQueue, a program runs on a host thread.
#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "driver.h"
#include "host_calls.h"
#include "host_operators.h"
#include "host_threads.h"
#include "launch_work.h"
#include "library.h"
#include "memory_check.h"
#include "program_pool.h"
#include "recording.h"
#include "spin.h"
#include "timeline.h"
#include "work_queue.h"

namespace inductor_npu::driver {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr int64_t kCopyChunk = 1 << 20;
constexpr size_t kParallelCopy = size_t{4} << 20;  // from here on several threads are faster than one

size_t round_to_pages(size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

// A copy of bytes in chunks; the ranges do not overlap.
class CopyJob final : public ProgramJob {
 public:
  CopyJob(char* destination, const char* source, size_t bytes)
      : ProgramJob(static_cast<int64_t>(bytes), kCopyChunk), destination_(destination), source_(source) {}

  void participate() override {
    int64_t begin = 0, end = 0;
    while (take(begin, end)) {
      std::memcpy(destination_ + begin, source_ + begin, static_cast<size_t>(end - begin));
    }
  }

 private:
  char* destination_;
  const char* source_;
};

struct CopyTask final : Work {
  CopyTask(void* destination, const void* source, size_t bytes, int threads)
      : destination_(static_cast<char*>(destination)),
        source_(static_cast<const char*>(source)),
        bytes_(bytes),
        threads_(threads) {}

  void run() override {
    const bool overlap = destination_ < source_ + bytes_ && source_ < destination_ + bytes_;
    if (overlap || bytes_ < kParallelCopy) {
      std::memmove(destination_, source_, bytes_);
      return;
    }
    CopyJob job(destination_, source_, bytes_);
    ProgramPool::instance().run(job, threads_);
  }
  const char* name() const noexcept override { return "copy"; }
  void describe(WorkRecord& record) const noexcept override {
    record.kind = WorkKind::Copy;
    record.destination = destination_;
    record.source = source_;
    record.copied_bytes = static_cast<int64_t>(bytes_);
  }

  char* destination_;
  const char* source_;
  size_t bytes_;
  int threads_;
};

struct FillTask final : Work {
  FillTask(void* memory, uint8_t value, size_t bytes) : memory_(memory), value_(value), bytes_(bytes) {}
  void run() override { std::memset(memory_, value_, bytes_); }
  const char* name() const noexcept override { return "fill"; }
  bool is_hidden() const noexcept override { return true; }

  void* memory_;
  uint8_t value_;
  size_t bytes_;
};

struct CallTask final : Work {
  CallTask(std::string name, std::function<void()> function, WorkKind kind)
      : name_(std::move(name)), function_(std::move(function)), kind_(kind) {}
  void run() override {
    const timeline::WithinWork part_of_this;
    function_();
  }
  const char* name() const noexcept override { return name_.c_str(); }
  void describe(WorkRecord& record) const noexcept override { record.kind = kind_; }

  std::string name_;
  std::function<void()> function_;
  WorkKind kind_;
};

using Timestamp = std::shared_ptr<std::atomic<int64_t>>;

struct TimestampTask final : Work {
  explicit TimestampTask(Timestamp timestamp) : timestamp_(std::move(timestamp)) {}
  void run() override { timestamp_->store(now_ns(), std::memory_order_release); }
  const char* name() const noexcept override { return "event record"; }

  Timestamp timestamp_;
};

struct WaitTask final : Work {
  WaitTask(WorkQueue* waiting, WorkQueue* queue, WorkQueue::Ticket ticket)
      : waiting_(waiting), queue_(queue), ticket_(ticket) {}
  void run() override {
    queue_->wait(ticket_);
    waiting_->inherit(queue_->failure_up_to(ticket_));
  }
  const char* name() const noexcept override { return "wait for event"; }
  void describe(WorkRecord& record) const noexcept override { record.kind = WorkKind::Wait; }

  WorkQueue* waiting_;
  WorkQueue* queue_;
  WorkQueue::Ticket ticket_;
};

}  // namespace

struct ReplayTask final : Work {
  ReplayTask(std::shared_ptr<RecordedGraph> graph, const WorkQueue& queue) : graph_(std::move(graph)), queue_(queue) {}
  void run() override { graph_->run(queue_, origin); }
  const char* name() const noexcept override { return "graph replay"; }
  void describe(WorkRecord& record) const noexcept override { record.kind = WorkKind::Replay; }

  std::shared_ptr<RecordedGraph> graph_;
  const WorkQueue& queue_;
};

struct Stream : WorkQueue {
  using WorkQueue::WorkQueue;
};

struct Graph {
  std::shared_ptr<RecordedGraph> recorded;
  // Where it was replayed last on each stream.
  std::mutex mutex;
  std::unordered_map<Stream*, WorkQueue::Ticket> replays;
};

// What was recorded last. Immutable once recorded, so that a reader on another thread sees a consistent state.
struct Record {
  Stream* stream = nullptr;
  WorkQueue::Ticket ticket = 0;
  Timestamp timestamp;
  std::shared_ptr<Recording> recording;  // of the capture during which it was recorded
  Recording::Position position = 0;
};

struct Event {
  explicit Event(bool timing) : timing(timing) {}

  Record get() const {
    std::lock_guard<std::mutex> lock(mutex);
    return record;
  }

  const bool timing;
  mutable std::mutex mutex;
  Record record;
};

void open(int /*device_count*/) {}

// --- Memory ----------------------------------------------------------------------------------------------------------

void* allocate(int /*device*/, size_t bytes) {
  // Over-allocate to align to huge pages, then give back both ends.
  const size_t size = round_to_pages(bytes);
  void* mapped =
      mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    return nullptr;
  }
  char* begin = static_cast<char*>(mapped);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) {
    munmap(begin, before);
  }
  munmap(begin + before + size, kHugePage - before);
  madvise(begin + before, size, MADV_HUGEPAGE);  // a wish: without it only more page faults
  return begin + before;
}

void release(int /*device*/, void* memory, size_t bytes) noexcept {
  munmap(memory, round_to_pages(bytes));
}

void fill(Stream* stream, void* memory, uint8_t value, size_t bytes) {
  // An operator of the library has waited for the stream, and writes on this thread.
  const bool is_for_operator = library::allocation_device.has_value();
  if (stream->capture() == 0 && (is_for_operator || query(stream))) {
    std::memset(memory, value, bytes);
  } else {
    stream->push(std::make_unique<FillTask>(memory, value, bytes));
  }
}

int create_shared(int /*device*/, size_t bytes) {
  const int descriptor = memfd_create("npu", MFD_CLOEXEC);
  if (descriptor != -1 && ftruncate(descriptor, static_cast<off_t>(round_to_pages(bytes))) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

bool is_shared(int descriptor, size_t bytes) noexcept {
  struct stat facts {};
  return fstat(descriptor, &facts) == 0 && static_cast<size_t>(facts.st_size) >= bytes;
}

void* map_shared(int /*device*/, int descriptor, size_t bytes) {
  void* mapped = mmap(nullptr, round_to_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return mapped != MAP_FAILED ? mapped : nullptr;
}

void* allocate_pinned(size_t bytes) {
  return std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
}

void release_pinned(void* memory) noexcept {
  std::free(memory);
}

bool is_pinned_by_others(const void* /*memory*/) noexcept {
  return false;
}

void note_allocated(const void* memory, size_t bytes) {
  memory_check::allocated(memory, bytes);
}

void note_freed(const void* memory) noexcept {
  memory_check::freed(memory);
}

void note_written(const void* memory, size_t bytes) {
  memory_check::written(memory, bytes);
}

void note_allocation_written(const void* memory) {
  memory_check::allocation_written(memory);
}

// --- Streams ---------------------------------------------------------------------------------------------------------

Stream* create_stream(int device, int id, int priority) {
  return new Stream(device, id, priority);
}

void copy(Stream* stream, void* destination, const void* source, size_t bytes) {
  stream->push(std::make_unique<CopyTask>(destination, source, bytes, host_threads()));
}

void launch(Stream* stream, const Launch& launch) {
  make_room_for(of_host(*launch.kernel).last_ns.load(std::memory_order_relaxed));
  stream->push(LaunchWork::make(launch));
}

void call(Stream* stream, std::string name, std::function<void()> function, WorkKind kind) {
  stream->push(std::make_unique<CallTask>(std::move(name), std::move(function), kind));
}

bool query(const Stream* stream) noexcept {
  return stream->passed(stream->last());
}

void synchronize(Stream* stream) {
  stream->wait(stream->last());
}

std::string take_error(Stream* stream) {
  return stream->take_error();
}

// --- Events ----------------------------------------------------------------------------------------------------------

Event* create_event(bool timing) {
  return new Event(timing);
}

void destroy(Event* event) noexcept {
  delete event;
}

void record(Event* event, Stream* stream) {
  Record next;
  next.stream = stream;
  if (event->timing) {
    next.timestamp = std::make_shared<std::atomic<int64_t>>(0);
    next.ticket = stream->push(std::make_unique<TimestampTask>(next.timestamp));
  } else {
    next.ticket = stream->last();  // a place in the queue: nothing needs to be queued for it
  }
  next.recording = stream->recording();
  if (next.recording != nullptr) {
    next.position = next.recording->position(stream);
  }
  std::lock_guard<std::mutex> lock(event->mutex);
  event->record = std::move(next);
}

namespace {

// `stream` waits for `record` while one of them takes part in a capture.
void block_in_capture(const Record& record, Stream* stream) {
  const std::shared_ptr<Recording> recording = stream->recording();
  if (record.recording == nullptr) {
    TORCH_CHECK(record.stream->passed(record.ticket), "stream ", stream->id, " of npu:", stream->device,
                " captures a graph and cannot wait for work of stream ", record.stream->id, " of npu:",
                record.stream->device, ", which does not take part: synchronize that stream before the capture begins");
    return;
  }
  TORCH_CHECK(record.stream->recording() == record.recording, "the event was recorded during a capture that is over: ",
              "it stands for no work that stream ", stream->id, " could wait for. Record it again");
  TORCH_CHECK(recording == nullptr || recording == record.recording, "stream ", stream->id, " of npu:", stream->device,
              " captures another graph than stream ", record.stream->id, ", for which it is to wait");
  if (recording == nullptr) {
    stream->wait(stream->last());
    stream->record_into(record.recording);
  }
  record.recording->join(stream, record.stream, record.position);
}

void check_not_captured(const Record& record, const char* what) {
  TORCH_CHECK(record.recording == nullptr, "cannot ", what, " an event that was recorded during the capture of a graph: "
              "it orders work within the graph only. Record it outside of the capture");
}

}  // namespace

void block(const Event* event, Stream* stream) {
  const Record record = event->get();
  if (record.stream == nullptr || record.stream == stream) {
    return;  // its own stream is in order anyway
  }
  if (C10_UNLIKELY(record.recording != nullptr || stream->capture() != 0)) {
    block_in_capture(record, stream);
  } else if (!record.stream->passed(record.ticket) || record.stream->failure_up_to(record.ticket).number != 0) {
    stream->push(std::make_unique<WaitTask>(stream, record.stream, record.ticket));
  }
}

bool query(const Event* event) {
  const Record record = event->get();
  check_not_captured(record, "query");
  return record.stream == nullptr || record.stream->passed(record.ticket);
}

void synchronize(const Event* event) {
  const Record record = event->get();
  check_not_captured(record, "synchronize");
  if (record.stream != nullptr) {
    record.stream->wait(record.ticket);
  }
}

Stream* stream_of(const Event* event) noexcept {
  return event->get().stream;
}

bool has_timing(const Event* event) noexcept {
  return event->timing;
}

double elapsed_ms(const Event* start, const Event* end) {
  const Record from = start->get(), to = end->get();
  check_not_captured(from, "read the time of");
  check_not_captured(to, "read the time of");
  const int64_t begin_ns = from.timestamp->load(std::memory_order_acquire);
  const int64_t end_ns = to.timestamp->load(std::memory_order_acquire);
  return static_cast<double>(end_ns - begin_ns) * 1e-6;
}

// --- Graphs ----------------------------------------------------------------------------------------------------------

uint64_t begin_capture(Stream* stream) {
  static std::atomic<uint64_t> captures{0};
  TORCH_CHECK(stream->capture() == 0, "stream ", stream->id, " of npu:", stream->device,
              " captures a graph already: end that capture first");
  stream->wait(stream->last());  // what was queued before runs outside of the capture, whatever it asks of the stream
  const uint64_t id = captures.fetch_add(1) + 1;
  stream->record_into(std::make_shared<Recording>(id, stream));
  return id;
}

OwnedGraph end_capture(Stream* stream) {
  const std::shared_ptr<Recording> recording = stream->recording();
  TORCH_CHECK(recording != nullptr && recording->is_origin(stream), "stream ", stream->id, " of npu:", stream->device,
              recording == nullptr ? " captures no graph" : " takes part in the capture that another stream began");
  for (WorkQueue* queue : recording->queues()) {
    queue->record_into(nullptr);
  }
  OwnedGraph graph(new Graph);
  graph->recorded = recording->finish();
  return graph;
}

uint64_t capture_of(const Stream* stream) noexcept {
  return stream->capture();
}

void invalidate_capture(Stream* stream, const std::string& reason) {
  if (const std::shared_ptr<Recording> recording = stream->recording()) {
    recording->invalidate(reason);
  }
}

void replay(const OwnedGraph& graph, Stream* stream) {
  make_room_for(graph->recorded->last_ns());
  const WorkQueue::Ticket ticket = stream->push(std::make_unique<ReplayTask>(graph->recorded, *stream));
  std::lock_guard<std::mutex> lock(graph->mutex);
  graph->replays[stream] = ticket;
}

std::vector<std::string> names(const OwnedGraph& graph) {
  return graph->recorded->names();
}

void DestroyGraph::operator()(Graph* graph) const noexcept {
  for (const auto& [stream, ticket] : graph->replays) {
    stream->wait(ticket);
  }
  delete graph;
}

}  // namespace inductor_npu::driver
