// The host driver: device memory is host memory, a stream is a WorkQueue, a program runs on a host thread.
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

#include "driver.h"
#include "launch_work.h"
#include "program_pool.h"
#include "spin.h"
#include "work_queue.h"

namespace inductor_npu::driver {
namespace {

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

using Timestamp = std::shared_ptr<std::atomic<int64_t>>;

struct TimestampTask final : Work {
  explicit TimestampTask(Timestamp timestamp) : timestamp_(std::move(timestamp)) {}
  void run() override { timestamp_->store(now_ns(), std::memory_order_release); }
  const char* name() const noexcept override { return "event record"; }

  Timestamp timestamp_;
};

struct WaitTask final : Work {
  WaitTask(WorkQueue* queue, WorkQueue::Ticket ticket) : queue_(queue), ticket_(ticket) {}
  void run() override { queue_->wait(ticket_); }
  const char* name() const noexcept override { return "wait for event"; }
  void describe(WorkRecord& record) const noexcept override { record.kind = WorkKind::Wait; }

  WorkQueue* queue_;
  WorkQueue::Ticket ticket_;
};

}  // namespace

struct Stream : WorkQueue {
  using WorkQueue::WorkQueue;
};

// What was recorded last. Immutable once recorded, so that a reader on another thread sees a consistent state.
struct Record {
  Stream* stream = nullptr;
  WorkQueue::Ticket ticket = 0;
  Timestamp timestamp;
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

// --- Streams ---------------------------------------------------------------------------------------------------------

Stream* create_stream(int device, int id, int priority) {
  return new Stream(device, id, priority);
}

void copy(Stream* stream, void* destination, const void* source, size_t bytes, int threads) {
  stream->push(std::make_unique<CopyTask>(destination, source, bytes, threads));
}

void launch(Stream* stream, const Launch& launch) {
  stream->push(LaunchWork::make(launch));
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
  std::lock_guard<std::mutex> lock(event->mutex);
  event->record = std::move(next);
}

void block(const Event* event, Stream* stream) {
  const Record record = event->get();
  // Its own stream is in order anyway; what is done need not be waited for.
  if (record.stream != nullptr && record.stream != stream && !record.stream->passed(record.ticket)) {
    stream->push(std::make_unique<WaitTask>(record.stream, record.ticket));
  }
}

bool query(const Event* event) noexcept {
  const Record record = event->get();
  return record.stream == nullptr || record.stream->passed(record.ticket);
}

void synchronize(const Event* event) {
  const Record record = event->get();
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
  const int64_t begin_ns = start->get().timestamp->load(std::memory_order_acquire);
  const int64_t end_ns = end->get().timestamp->load(std::memory_order_acquire);
  return static_cast<double>(end_ns - begin_ns) * 1e-6;
}

}  // namespace inductor_npu::driver
