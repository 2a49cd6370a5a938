#include "memory_history.h"

#include <torch/csrc/profiler/combined_traceback.h>

#include <chrono>
#include <utility>

namespace inductor_npu {
namespace {

thread_local Stack current_stack;

int64_t now_us() {
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::atomic<StacksOf> gathered_stacks{StacksOf::Nothing};
std::atomic<bool> gathers_cpp_frames{false};

CallStack::CallStack(StacksOf use) {
  const StacksOf wanted = gathered_stacks.load(std::memory_order_relaxed);
  if (C10_LIKELY(wanted < use || wanted == StacksOf::Nothing)) {
    return;
  }
  const bool cpp_frames = gathers_cpp_frames.load(std::memory_order_relaxed);
  current_stack = torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true, cpp_frames);
  gathered_ = true;
}

CallStack::~CallStack() {
  if (C10_UNLIKELY(gathered_)) {
    current_stack.reset();
  }
}

const Stack& CallStack::current() {
  return current_stack;
}

void MemoryHistory::set(const HistorySettings& settings, bool clear) {
  if (!settings.on || clear) {
    rings_ = {};
  }
  settings_ = settings;
  gathered_stacks.store(settings.on ? settings.stacks : StacksOf::Nothing, std::memory_order_relaxed);
  gathers_cpp_frames.store(settings.cpp_frames, std::memory_order_relaxed);
}

void MemoryHistory::add(c10::DeviceIndex device, MemoryAction action, const void* address, size_t size,
                        c10::StreamId stream, c10::MempoolId_t pool, const Stack& stack) {
  const bool skipped = (settings_.skipped >> static_cast<unsigned>(action) & 1) != 0;
  if (C10_LIKELY(!settings_.on || !settings_.events || skipped || settings_.max_events == 0)) {
    return;
  }
  MemoryEvent event{action,   reinterpret_cast<uintptr_t>(address), size, stream, pool,
                    now_us(), settings_.stacks >= StacksOf::Allocations ? stack : nullptr};
  Ring& ring = rings_[device];
  if (ring.events.size() < settings_.max_events) {
    ring.events.push_back(std::move(event));
    return;
  }
  ring.oldest %= ring.events.size();
  ring.events[ring.oldest++] = std::move(event);
}

std::vector<MemoryEvent> MemoryHistory::events(c10::DeviceIndex device) const {
  const Ring& ring = rings_[device];
  std::vector<MemoryEvent> ordered(ring.events.begin() + static_cast<ptrdiff_t>(ring.oldest), ring.events.end());
  ordered.insert(ordered.end(), ring.events.begin(), ring.events.begin() + static_cast<ptrdiff_t>(ring.oldest));
  return ordered;
}

}  // namespace inductor_npu
