// The caching allocator: who gets a block of device memory (device_memory.h), and when it can be somebody else's.
//
// A freed block goes back to the pool of the stream it was allocated for. Work on that stream is in order, so that
// whoever gets the block next uses it only after its last use. A block that other streams used as well (record_stream)
// waits until they have passed the point where it was freed.
#include "allocator.h"

#include <c10/core/AllocatorConfig.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "device_memory.h"

namespace inductor_npu {
namespace {

using c10::CachingAllocator::format_size;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t kPage = 4096;
constexpr uint8_t kFresh = 0xFF;  // NaN, whatever the width of the type

std::atomic<bool> fills_allocations{false};

void delete_block(void* pointer);

thread_local c10::MempoolId_t thread_pool = kSharedPool;

// Where a capture allocates, and what it has allocated.
struct Route {
  c10::MempoolId_t pool;
  std::vector<MemoryRange> taken;
};

class CachingAllocator final : public c10::DeviceAllocator {
 public:
  CachingAllocator() {
    for (c10::DeviceIndex device = 0; device < kMaxDevices; ++device) {
      devices_.emplace_back(device, segments_, history_);
    }
  }

  // --- c10::Allocator ------------------------------------------------------------------------------------------------
  c10::DataPtr allocate(size_t size) override {
    const c10::DeviceIndex device = current_device();
    const c10::Device where(kNpu, device);
    if (size == 0) {
      ensure_open();
      return {nullptr, nullptr, &delete_block, where};
    }
    void* pointer = allocate_block(device, size);
    return {pointer, pointer, &delete_block, where};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }

  void copy_data(void* destination, const void* source, size_t count) const override {
    const c10::Stream stream = current_stream();
    copy_async(stream, destination, source, count);
    synchronize_stream(stream);
  }

  // --- c10::DeviceAllocator ------------------------------------------------------------------------------------------
  bool initialized() override { return is_open(); }

  void emptyCache(c10::MempoolId_t /*pool*/) override {
    if (!is_open()) {
      return;
    }
    const CallStack stack(StacksOf::Everything);
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!devices_[device].holds_cached()) {
        continue;
      }
      lock.unlock();
      wait_for_all_streams(device);
      lock.lock();
      devices_[device].reclaim_pending();
      release(devices_[device].take_cached(), device, lock);
    }
  }

  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    if (pointer.get() == nullptr || pointer.get_deleter() != &delete_block) {
      return;  // empty, or memory of another allocator (an alias): its owner decides
    }
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = allocated_.find(pointer.get_context());
    if (found == allocated_.end()) {
      return;
    }
    Block& block = *found->second;
    TORCH_CHECK(stream.device_index() == block.device, "record_stream: memory of npu:", static_cast<int>(block.device),
                " cannot be recorded on a stream of npu:", static_cast<int>(stream.device_index()));
    auto& used_by = block.used_by;
    if (stream.id() != block.stream && std::find(used_by.begin(), used_by.end(), stream.id()) == used_by.end()) {
      used_by.push_back(stream.id());
    }
  }

  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    check_device(device);
    std::lock_guard<std::mutex> lock(mutex_);
    DeviceStats stats = devices_[device].stats;
    stats.max_split_size = static_cast<int64_t>(c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size());
    return stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    check_device(device);
    std::lock_guard<std::mutex> lock(mutex_);
    devices_[device].reset_accumulated();
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    check_device(device);
    std::lock_guard<std::mutex> lock(mutex_);
    devices_[device].reset_peaks();
  }

  // (free, total). Free is what is not reserved, as a chip's driver would say.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    check_device(device);
    ensure_open();
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t total = configuration().memory_bytes;
    return {total - std::min(total, devices_[device].reserved_bytes()), total};
  }

  // --- More than PyTorch asks ----------------------------------------------------------------------------------------
  size_t limit(c10::DeviceIndex device) {
    check_device(device);
    std::lock_guard<std::mutex> lock(mutex_);
    return devices_[device].limit();
  }

  void set_limit(c10::DeviceIndex device, size_t limit) {
    check_device(device);
    std::lock_guard<std::mutex> lock(mutex_);
    devices_[device].set_limit(limit);
  }

  c10::DeviceIndex device_of(const void* pointer) {
    std::lock_guard<std::mutex> lock(mutex_);
    const Segment* segment = segments_.at(pointer);
    return segment != nullptr ? segment->first->device : c10::DeviceIndex{-1};
  }

  std::vector<SegmentSnapshot> snapshot() {
    std::lock_guard<std::mutex> lock(mutex_);
    return segments();
  }

  HistorySnapshot history() {
    const CallStack stack(StacksOf::Everything);
    std::lock_guard<std::mutex> lock(mutex_);
    HistorySnapshot result{segments(), {}};
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      history_.add(device, MemoryAction::Snapshot, nullptr, devices_[device].reserved_bytes(), 0, kSharedPool);
      result.events.push_back(history_.events(device));
    }
    return result;
  }

  HistorySettings record_history(const HistorySettings& settings, bool clear) {
    std::lock_guard<std::mutex> lock(mutex_);
    const HistorySettings before = history_.settings();
    history_.set(settings, clear);
    return before;
  }

  uint64_t allocations() {
    std::lock_guard<std::mutex> lock(mutex_);
    return allocations_;
  }

  // --- Memory that other processes have, too -------------------------------------------------------------------------
  void* allocate_shared(int descriptor, c10::DeviceIndex device, size_t size) {
    const c10::Stream stream = current_stream(device);
    DeviceMemory& memory = devices_[device];
    const CallStack stack(StacksOf::Blocks);
    std::unique_lock<std::mutex> lock(mutex_);
    memory.reclaim_passed();
    const size_t bytes = (size + kPage - 1) / kPage * kPage;
    const auto map = [&] { return memory.shared_segment(descriptor, stream.id(), bytes); };
    Block* block = map();
    if (block == nullptr) {
      wait_and_reclaim(memory, device, lock);
      release(memory.take_cached(), device, lock);
      block = map();
    }
    if (block == nullptr) {
      close(descriptor);
      fail(memory, stream, kSharedPool, size, lock);
    }
    memory.hand_out(block, block->size, size);
    return give(block, lock);
  }

  int descriptor_of(const void* pointer) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = allocated_.find(const_cast<void*>(pointer));
    return found != allocated_.end() ? found->second->descriptor : -1;
  }

  // --- Private pools -------------------------------------------------------------------------------------------------
  void retain(c10::DeviceIndex device, c10::MempoolId_t id) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++devices_[device].pools(id).owners;
  }

  void release(c10::DeviceIndex device, c10::MempoolId_t id) {
    DeviceMemory& memory = devices_[device];
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (--memory.pools(id).owners > 0) {
        return;
      }
    }
    wait_for_all_streams(device);
    std::unique_lock<std::mutex> lock(mutex_);
    memory.reclaim_pending();
    const Pools* pools = memory.find_private(id);
    if (pools != nullptr && pools->owners == 0) {  // else somebody was faster, or wants it again
      release(memory.take_private(id), device, lock);
    }
  }

  bool is_private(const void* pointer) {
    std::lock_guard<std::mutex> lock(mutex_);
    const Segment* segment = segments_.at(pointer);
    return segment != nullptr && segment->first->pool->id != kSharedPool;
  }

  int owners(c10::DeviceIndex device, c10::MempoolId_t id) {
    std::lock_guard<std::mutex> lock(mutex_);
    const Pools* pools = devices_[device].find_private(id);
    return pools != nullptr ? pools->owners : 0;
  }

  void route(uint64_t capture, c10::MempoolId_t id) {
    std::lock_guard<std::mutex> lock(mutex_);
    captures_[capture] = {id, {}};
  }

  std::vector<MemoryRange> end_route(uint64_t capture) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = captures_.find(capture);
    std::vector<MemoryRange> taken = std::move(found->second.taken);
    captures_.erase(found);
    return taken;
  }

  void watch(const void* pointer, c10::MempoolId_t own_pool, const std::shared_ptr<MemoryWatch>& watch,
             const std::string& reader) {
    std::lock_guard<std::mutex> lock(mutex_);
    Block* block = segments_.block_at(pointer);
    if (block == nullptr || !block->allocated || block->pool->id == own_pool) {
      return;
    }
    auto& watchers = block->watchers;
    std::erase_if(watchers, [](const Watcher& watcher) { return watcher.watch.expired(); });
    const bool known = std::any_of(watchers.begin(), watchers.end(),
                                   [&](const Watcher& watcher) { return watcher.watch.lock() == watch; });
    if (!known) {
      watchers.push_back({watch, reader});
    }
  }

  void free_block(void* pointer) noexcept {
    if (!is_open()) {
      return;  // a forked child: its copy of the memory goes with the process, and the lock may be held by a thread
               // that is gone
    }
    const CallStack stack(StacksOf::Everything);
    std::unique_lock<std::mutex> lock(mutex_);
    const auto found = allocated_.find(pointer);
    if (found == allocated_.end()) {
      return;
    }
    Block* block = found->second;
    allocated_.erase(found);
    driver::note_freed(pointer);
    tell_watchers(*block);
    const int64_t size = static_cast<int64_t>(block->size);
    const c10::DeviceIndex device = block->device;
    devices_[device].take_back(block, record_uses(*block));
    report(pointer, -size, device, lock);
  }

 private:
  std::vector<SegmentSnapshot> segments() const {
    std::vector<SegmentSnapshot> result;
    for (const auto& [address, segment] : segments_.by_address()) {
      const Block& first = *segment.first;
      SegmentSnapshot entry{
          first.device, reinterpret_cast<uintptr_t>(address), segment.size, first.stream, first.pool->id,
          first.pool->small, segment.stack, {}};
      for (const Block* block = &first; block != nullptr; block = block->after) {
        const char* state = block->allocated          ? "active_allocated"
                            : block->pending_uses > 0 ? "active_awaiting_free"
                                                      : "inactive";
        entry.blocks.push_back({reinterpret_cast<uintptr_t>(block->pointer), block->size, block->requested, state,
                                block->number, block->stack});
      }
      result.push_back(std::move(entry));
    }
    return result;
  }

  void* allocate_block(c10::DeviceIndex device, size_t requested) {
    ensure_open();
    check_device(device);
    const c10::Stream current = current_stream(device);
    const c10::StreamId stream = current.id();
    TORCH_CHECK_WITH(OutOfMemoryError, requested < (size_t{1} << 62), "npu out of memory. Tried to allocate ",
                     format_size(requested), ", which is more than an address can reach");
    const size_t size = block_size(requested);
    DeviceMemory& memory = devices_[device];
    const CallStack stack(StacksOf::Blocks);
    std::unique_lock<std::mutex> lock(mutex_);
    memory.reclaim_passed();
    const uint64_t capture = driver::capture_of(native(current));
    Pools& pools = memory.pools(pool_for(capture));
    Pool& pool = pools.for_size(size);
    Block* block = memory.find_cached(pool, stream, size, /*spare=*/true);
    if (block == nullptr) {
      ++pools.reserving;
      block = reserve(memory, pool, current, size, lock);
      --pools.reserving;
    }
    if (block == nullptr) {
      fail(memory, current, pool.id, requested, lock);
    }
    memory.hand_out(block, size, requested);
    if (C10_UNLIKELY(capture != 0)) {
      note_taken(capture, *block);
    }
    const size_t bytes = block->size;
    void* pointer = give(block, lock);
    if (C10_UNLIKELY(fills_allocations.load(std::memory_order_relaxed))) {
      if (lock.owns_lock()) {
        lock.unlock();
      }
      driver::fill(native(current), pointer, kFresh, bytes);
    }
    return pointer;
  }

  // Enters a block that was handed out; gives up the lock.
  void* give(Block* block, std::unique_lock<std::mutex>& lock) {
    block->number = ++allocations_;
    allocated_.emplace(block->pointer, block);
    driver::note_allocated(block->pointer, block->requested);
    void* pointer = block->pointer;
    report(pointer, static_cast<int64_t>(block->size), block->device, lock);
    return pointer;
  }

  // The pool that an allocation of this thread, on a stream that takes part in `capture`, comes from.
  c10::MempoolId_t pool_for(uint64_t capture) {
    if (C10_LIKELY(capture == 0)) {
      return thread_pool;
    }
    const auto routed = captures_.find(capture);
    return routed != captures_.end() ? routed->second.pool : thread_pool;
  }

  void note_taken(uint64_t capture, const Block& block) {
    if (const auto routed = captures_.find(capture); routed != captures_.end()) {
      routed->second.taken.push_back({block.pointer, block.size});
    }
  }

  // Events after the last use of the block on other streams.
  std::vector<driver::Event*> record_uses(Block& block) {
    std::vector<driver::Event*> events;
    const c10::Stream own(c10::Stream::UNSAFE, c10::Device(kNpu, block.device), block.stream);
    if (block.descriptor != -1 && !driver::query(native(own))) {
      block.used_by.push_back(block.stream);  // it leaves this process, hence the order of the stream does not do
    }
    for (const c10::StreamId id : block.used_by) {
      driver::Stream* stream = native(c10::Stream(c10::Stream::UNSAFE, c10::Device(kNpu, block.device), id));
      if (driver::capture_of(stream) != 0) {
        continue;  // a captured graph runs in the order in which it was recorded, whatever the stream
      }
      driver::Event* event = driver::create_event(/*timing=*/false);
      driver::record(event, stream);
      events.push_back(event);
    }
    block.used_by.clear();
    return events;
  }

  void tell_watchers(Block& block) {
    for (const Watcher& watcher : block.watchers) {
      if (const std::shared_ptr<MemoryWatch> watch = watcher.watch.lock()) {
        std::lock_guard<std::mutex> lock(watch->mutex);
        if (!watch->lost.load()) {
          watch->message = c10::str(format_size(block.requested), " at ", static_cast<void*>(block.pointer),
                                    ", which ", watcher.reader, " reads or writes");
          watch->lost.store(true);
        }
      }
    }
    block.watchers.clear();
  }

  // A new segment; if the limit or the host forbids it, after giving back what is cached. Null if that is not enough.
  Block* reserve(DeviceMemory& memory, Pool& pool, c10::Stream stream, size_t size, std::unique_lock<std::mutex>& lock) {
    const c10::DeviceIndex device = stream.device_index();
    // With garbage_collection_threshold, what was not used for long goes before the limit is reached.
    if (const size_t garbage = memory.garbage(); C10_UNLIKELY(garbage > 0)) {
      release(memory.take_oldest(garbage), device, lock);
    }
    if (Block* block = memory.new_segment(pool, stream.id(), size)) {
      return block;
    }
    wait_and_reclaim(memory, device, lock);
    if (Block* block = memory.find_cached(pool, stream.id(), size, /*spare=*/false)) {
      return block;
    }
    if (const DeviceMemory::Taken oversize = memory.take_oversize(pool, stream.id(), size); !oversize.empty()) {
      release(oversize, device, lock);
      if (Block* block = memory.new_segment(pool, stream.id(), size)) {
        return block;
      }
    }
    release(memory.take_cached(), device, lock);
    return memory.new_segment(pool, stream.id(), size);
  }

  // Gives segments back that nobody can get any more. Meanwhile other threads may have queued work that uses them, and
  // freed them: it is waited for after they were taken.
  void release(const DeviceMemory::Taken& taken, c10::DeviceIndex device, std::unique_lock<std::mutex>& lock) {
    if (!taken.empty()) {
      lock.unlock();
      wait_for_all_streams(device);
      lock.lock();
    }
    devices_[device].release(taken);
  }

  // For want of memory: what waits for other streams is free then, and what is cached can be given back.
  void wait_and_reclaim(DeviceMemory& memory, c10::DeviceIndex device, std::unique_lock<std::mutex>& lock) {
    ++memory.stats.num_alloc_retries;
    ++memory.stats.num_sync_all_streams;
    lock.unlock();
    wait_for_all_streams(device);
    lock.lock();
    memory.reclaim_pending();
  }

  [[noreturn]] void fail(DeviceMemory& memory, c10::Stream stream, c10::MempoolId_t pool, size_t requested,
                         std::unique_lock<std::mutex>& lock) {
    ++memory.stats.num_ooms;
    history_.add(stream.device_index(), MemoryAction::OutOfMemory, reinterpret_cast<void*>(memory.room()), requested,
                 stream.id(), pool);
    raise_out_of_memory(stream.device_index(), requested, lock);
  }

  [[noreturn]] void raise_out_of_memory(c10::DeviceIndex device, size_t requested, std::unique_lock<std::mutex>& lock) {
    const DeviceMemory& memory = devices_[device];
    const size_t reserved = memory.reserved_bytes();
    const size_t allocated = memory.allocated_bytes();
    const size_t limit = memory.limit();
    const size_t room = memory.room();
    lock.unlock();
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(requested), allocated, reserved, c10::Device(kNpu, device));
    const bool is_full = requested <= room;
    TORCH_CHECK_WITH(
        OutOfMemoryError, false, "npu out of memory. Tried to allocate ", format_size(requested),
        ". npu:", static_cast<int>(device), " has a capacity of ", format_size(limit), ", of which ",
        format_size(room), " is free; ", format_size(reserved),
        " is reserved by PyTorch, ", format_size(allocated), " of that allocated and ",
        format_size(reserved - allocated), " reserved but unallocated. ",
        is_full ? configuration().no_more_memory : configuration().more_memory,
        ". Free tensors that are not needed, or use a smaller batch; the program can go on after this error");
  }

  // Tells the profiler, without the lock: it may call anything.
  void report(void* pointer, int64_t change, c10::DeviceIndex device, std::unique_lock<std::mutex>& lock) {
    if (C10_LIKELY(!c10::memoryProfilingEnabled())) {
      return;
    }
    const size_t allocated = devices_[device].allocated_bytes();
    const size_t reserved = devices_[device].reserved_bytes();
    lock.unlock();
    c10::reportMemoryUsageToProfiler(pointer, change, allocated, reserved, c10::Device(kNpu, device));
  }

  std::mutex mutex_;
  Segments segments_;
  MemoryHistory history_;
  uint64_t allocations_ = 0;
  std::deque<DeviceMemory> devices_;
  std::unordered_map<void*, Block*> allocated_;   // by address
  std::unordered_map<uint64_t, Route> captures_;  // in progress
};

CachingAllocator& allocator() {
  static auto* instance = new CachingAllocator();  // never destroyed: tensors may outlive static objects
  return *instance;
}

void delete_block(void* pointer) {
  if (pointer != nullptr) {
    allocator().free_block(pointer);
  }
}

const c10::AllocatorRegisterer<kNpu> registered(&allocator());

}  // namespace

c10::DeviceAllocator* device_allocator() {
  return &allocator();
}

size_t memory_limit(c10::DeviceIndex device) {
  return allocator().limit(device);
}

void set_memory_fraction(double fraction, c10::DeviceIndex device) {
  TORCH_CHECK(fraction > 0 && fraction <= 1,
              "set_per_process_memory_fraction: the fraction must be above 0 and at most 1, got ", fraction);
  const auto limit = static_cast<size_t>(fraction * static_cast<double>(configuration().memory_bytes));
  allocator().set_limit(device, std::max<size_t>(limit, 1));
}

std::vector<SegmentSnapshot> memory_snapshot() {
  return allocator().snapshot();
}

HistorySnapshot memory_history() {
  return allocator().history();
}

HistorySettings record_memory_history(const HistorySettings& settings, bool clear) {
  return allocator().record_history(settings, clear);
}

uint64_t allocation_count() {
  return allocator().allocations();
}

void fill_allocations(bool on) {
  fills_allocations.store(on, std::memory_order_relaxed);
}

void fill_as_fresh(void* memory, size_t bytes) {
  driver::fill(native(current_stream(device_of_pointer(memory))), memory, kFresh, bytes);
}

c10::DataPtr allocate_shared(int descriptor, c10::DeviceIndex device, size_t size) {
  void* pointer = allocator().allocate_shared(descriptor, device, size);
  return {pointer, pointer, &delete_block, c10::Device(kNpu, device)};
}

int descriptor_of(const void* pointer) {
  return allocator().descriptor_of(pointer);
}

c10::MempoolId_t new_pool_id(bool by_user) {
  static std::atomic<c10::CaptureId_t> next{1};
  const c10::CaptureId_t id = next.fetch_add(1);
  return by_user ? c10::MempoolId_t{0, id} : c10::MempoolId_t{id, 0};
}

void retain_pool(c10::DeviceIndex device, c10::MempoolId_t pool) {
  allocator().retain(device, pool);
}

void release_pool(c10::DeviceIndex device, c10::MempoolId_t pool) {
  allocator().release(device, pool);
}

bool is_of_private_pool(const void* pointer) {
  return allocator().is_private(pointer);
}

int pool_owners(c10::DeviceIndex device, c10::MempoolId_t pool) {
  return allocator().owners(device, pool);
}

void route_capture(uint64_t capture, c10::MempoolId_t pool) {
  allocator().route(capture, pool);
}

std::vector<MemoryRange> end_route(uint64_t capture) {
  return allocator().end_route(capture);
}

c10::MempoolId_t exchange_thread_pool(c10::MempoolId_t pool) {
  return std::exchange(thread_pool, pool);
}

void watch_memory(const void* pointer, c10::MempoolId_t own_pool, const std::shared_ptr<MemoryWatch>& watch,
                  const std::string& reader) {
  allocator().watch(pointer, own_pool, watch, reader);
}

bool is_npu_pointer(const void* pointer) {
  return device_of_pointer(pointer) != -1;
}

c10::DeviceIndex device_of_pointer(const void* pointer) {
  return allocator().device_of(pointer);
}

}  // namespace inductor_npu
