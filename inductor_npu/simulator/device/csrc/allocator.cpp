// Device memory: segments from the driver, cut into blocks, cached per stream.
//
// A freed block goes back to the pool of the stream it was allocated for. Work on that stream is in order, so that
// whoever gets the block next uses it only after its last use. A block that other streams used as well (record_stream)
// waits until they have passed the point where it was freed.
#include "allocator.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "memory_check.h"

namespace inductor_npu {
namespace {

using c10::CachingAllocator::format_size;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kAlignment = 512;      // of every block
constexpr size_t kSmallRequest = kMiB;  // requests up to here come from small segments
constexpr size_t kSmallSegment = 2 * kMiB;
constexpr size_t kLargeSegment = 20 * kMiB;  // shared by requests below kOwnSegment
constexpr size_t kOwnSegment = 10 * kMiB;    // requests from here on get a segment of their own
constexpr size_t kSegmentRounding = 2 * kMiB;

size_t round_up(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

struct Pool;

struct Watcher {
  std::weak_ptr<MemoryWatch> watch;
  std::string reader;
};

struct Block {
  c10::DeviceIndex device;
  c10::StreamId stream;
  Pool* pool;
  char* pointer;
  size_t size;
  size_t requested = 0;
  bool allocated = false;
  int pending_uses = 0;     // streams that have not passed the point of its free yet
  Block* before = nullptr;  // neighbours in the segment
  Block* after = nullptr;
  std::vector<c10::StreamId> used_by{};  // other streams of its device
  std::vector<Watcher> watchers{};       // captured graphs that read it
  bool is_free() const { return !allocated && pending_uses == 0; }
  bool is_split() const { return before != nullptr || after != nullptr; }
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    return std::tie(a->stream, a->size, a->pointer) < std::tie(b->stream, b->size, b->pointer);
  }
};

struct Pool {
  Pool(bool small, c10::MempoolId_t id) : small(small), id(id) {}
  const bool small;
  const c10::MempoolId_t id;
  std::set<Block*, BySize> free;
};

// Small and large blocks with one id.
struct Pools {
  explicit Pools(c10::MempoolId_t id) : small(true, id), large(false, id) {}
  Pool small, large;
  int owners = 0;    // of a private pool
  int segments = 0;
};

struct PendingUse {
  driver::Event* event;
  Block* block;
};

constexpr c10::MempoolId_t kSharedPool{0, 0};

struct DeviceMemory {
  Pools shared{kSharedPool};
  std::map<c10::MempoolId_t, Pools> private_pools;
  std::deque<PendingUse> pending;
  DeviceStats stats;
  size_t limit = 0;  // 0: not set yet, the configured capacity
};

void increase(StatArray& stat, const Pool& pool, size_t amount) {
  stat[static_cast<size_t>(StatType::AGGREGATE)].increase(amount);
  stat[static_cast<size_t>(pool.small ? StatType::SMALL_POOL : StatType::LARGE_POOL)].increase(amount);
}

void decrease(StatArray& stat, const Pool& pool, size_t amount) {
  stat[static_cast<size_t>(StatType::AGGREGATE)].decrease(amount);
  stat[static_cast<size_t>(pool.small ? StatType::SMALL_POOL : StatType::LARGE_POOL)].decrease(amount);
}

size_t current_of(const StatArray& stat) {
  return static_cast<size_t>(stat[static_cast<size_t>(StatType::AGGREGATE)].current);
}

template <class Visit>
void for_each_stat(DeviceStats& stats, Visit&& visit) {
  for (StatArray* array :
       {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
        &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
    for (auto& stat : *array) {
      visit(stat);
    }
  }
  visit(stats.oversize_allocations);
  visit(stats.oversize_segments);
}

void delete_block(void* pointer);

thread_local c10::MempoolId_t thread_pool = kSharedPool;

// Where a capture allocates, and what it has allocated.
struct Route {
  c10::MempoolId_t pool;
  std::vector<MemoryRange> taken;
};

class CachingAllocator final : public c10::DeviceAllocator {
 public:
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
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!in_use(device)) {
        continue;
      }
      lock.unlock();
      wait_for_all_streams(device);  // queued work may still use what is cached
      lock.lock();
      reclaim_pending(device);
      release_cached(device);
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
    return devices_[device].stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    check_device(device);
    std::lock_guard<std::mutex> lock(mutex_);
    DeviceStats& stats = devices_[device].stats;
    for_each_stat(stats, [](auto& stat) { stat.reset_accumulated(); });
    stats.num_alloc_retries = stats.num_ooms = stats.num_sync_all_streams = 0;
    stats.num_device_alloc = stats.num_device_free = 0;
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    check_device(device);
    std::lock_guard<std::mutex> lock(mutex_);
    for_each_stat(devices_[device].stats, [](auto& stat) { stat.reset_peak(); });
  }

  // (free, total). Free is what is not reserved, as a chip's driver would say.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    check_device(device);
    ensure_open();
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t total = configuration().memory_bytes;
    return {total - std::min(total, current_of(devices_[device].stats.reserved_bytes)), total};
  }

  // --- More than PyTorch asks ----------------------------------------------------------------------------------------
  size_t limit(c10::DeviceIndex device) {
    check_device(device);
    std::lock_guard<std::mutex> lock(mutex_);
    return limit_of(device);
  }

  void set_limit(c10::DeviceIndex device, size_t limit) {
    check_device(device);
    std::lock_guard<std::mutex> lock(mutex_);
    devices_[device].limit = limit;
  }

  c10::DeviceIndex device_of(const void* pointer) {
    std::lock_guard<std::mutex> lock(mutex_);
    const Segment* segment = segment_at(static_cast<const char*>(pointer));
    return segment != nullptr ? segment->first->device : c10::DeviceIndex{-1};
  }

  std::vector<SegmentSnapshot> snapshot() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<SegmentSnapshot> result;
    for (const auto& [address, segment] : segments_) {
      const Block& first = *segment.first;
      SegmentSnapshot entry{
          first.device, reinterpret_cast<uintptr_t>(address), segment.size, first.stream, first.pool->id,
          first.pool->small, {}};
      for (const Block* block = &first; block != nullptr; block = block->after) {
        const char* state = block->allocated          ? "active_allocated"
                            : block->pending_uses > 0 ? "active_pending_free"
                                                      : "inactive";
        entry.blocks.push_back({reinterpret_cast<uintptr_t>(block->pointer), block->size, block->requested, state});
      }
      result.push_back(std::move(entry));
    }
    return result;
  }

  // --- Private pools -------------------------------------------------------------------------------------------------
  void retain(c10::DeviceIndex device, c10::MempoolId_t id) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++private_pool(device, id).owners;
  }

  void release(c10::DeviceIndex device, c10::MempoolId_t id) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (--private_pool(device, id).owners > 0) {
        return;
      }
    }
    wait_for_all_streams(device);  // queued work may still use what is free
    std::lock_guard<std::mutex> lock(mutex_);
    reclaim_pending(device);
    auto& private_pools = devices_[device].private_pools;
    const auto found = private_pools.find(id);
    if (found == private_pools.end() || found->second.owners > 0) {
      return;  // somebody else was faster, or wants it again
    }
    release_free(device, found->second);
    if (found->second.segments == 0) {
      private_pools.erase(found);
    }
  }

  bool is_private(const void* pointer) {
    std::lock_guard<std::mutex> lock(mutex_);
    const Segment* segment = segment_at(static_cast<const char*>(pointer));
    return segment != nullptr && segment->first->pool->id != kSharedPool;
  }

  int owners(c10::DeviceIndex device, c10::MempoolId_t id) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = devices_[device].private_pools.find(id);
    return found == devices_[device].private_pools.end() ? 0 : found->second.owners;
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
    Block* block = block_at(static_cast<const char*>(pointer));
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
    std::unique_lock<std::mutex> lock(mutex_);
    const auto found = allocated_.find(pointer);
    if (found == allocated_.end()) {
      return;
    }
    Block* block = found->second;
    allocated_.erase(found);
    memory_check::freed(pointer);
    tell_watchers(*block);
    block->allocated = false;
    DeviceStats& stats = devices_[block->device].stats;
    decrease(stats.allocation, *block->pool, 1);
    decrease(stats.allocated_bytes, *block->pool, block->size);
    decrease(stats.requested_bytes, *block->pool, block->requested);
    const int64_t size = static_cast<int64_t>(block->size);
    const c10::DeviceIndex device = block->device;
    for (const c10::StreamId id : block->used_by) {
      driver::Stream* stream = native(c10::Stream(c10::Stream::UNSAFE, c10::Device(kNpu, device), id));
      if (driver::capture_of(stream) != 0) {
        continue;  // a captured graph runs in the order in which it was recorded, whatever the stream
      }
      driver::Event* event = driver::create_event(/*timing=*/false);
      driver::record(event, stream);
      devices_[device].pending.push_back({event, block});
      ++block->pending_uses;
    }
    block->used_by.clear();
    if (block->is_free()) {
      return_to_pool(block);
    }
    report(pointer, -size, device, lock);
  }

 private:
  struct Segment {
    Block* first;
    size_t size;
  };

  const Segment* segment_at(const char* pointer) {
    const auto above = segments_.upper_bound(const_cast<char*>(pointer));
    if (above == segments_.begin()) {
      return nullptr;
    }
    const auto& [begin, segment] = *std::prev(above);
    return pointer < begin + segment.size ? &segment : nullptr;
  }

  Block* block_at(const char* pointer) {
    const Segment* segment = segment_at(pointer);
    Block* block = segment != nullptr ? segment->first : nullptr;
    while (block != nullptr && pointer >= block->pointer + block->size) {
      block = block->after;
    }
    return block;
  }

  void* allocate_block(c10::DeviceIndex device, size_t requested) {
    ensure_open();
    check_device(device);
    const c10::Stream current = current_stream(device);
    const c10::StreamId stream = current.id();
    TORCH_CHECK_WITH(OutOfMemoryError, requested < (size_t{1} << 62), "npu out of memory. Tried to allocate ",
                     format_size(requested), ", which is more than an address can reach");
    const size_t size = round_up(requested, kAlignment);
    std::unique_lock<std::mutex> lock(mutex_);
    reclaim_passed(device);
    const uint64_t capture = driver::capture_of(native(current));
    Pools& pools = pools_for(device, capture);
    Pool& pool = size <= kSmallRequest ? pools.small : pools.large;
    Block* block = find_cached(pool, stream, size, /*spare=*/true);
    if (block == nullptr) {
      block = reserve(device, pool, stream, size, requested, lock);
    }
    split(block, size);
    block->allocated = true;
    block->requested = requested;
    if (C10_UNLIKELY(capture != 0)) {
      note_taken(capture, *block);
    }
    allocated_.emplace(block->pointer, block);
    memory_check::allocated(block->pointer, requested);
    DeviceStats& stats = devices_[device].stats;
    increase(stats.allocation, pool, 1);
    increase(stats.allocated_bytes, pool, block->size);
    increase(stats.requested_bytes, pool, requested);
    increase(stats.active, pool, 1);
    increase(stats.active_bytes, pool, block->size);
    void* pointer = block->pointer;
    report(pointer, static_cast<int64_t>(block->size), device, lock);
    return pointer;
  }

  // The pools that an allocation of this thread, on a stream that takes part in `capture`, comes from.
  Pools& pools_for(c10::DeviceIndex device, uint64_t capture) {
    c10::MempoolId_t id = thread_pool;
    if (C10_UNLIKELY(capture != 0)) {
      const auto routed = captures_.find(capture);
      id = routed != captures_.end() ? routed->second.pool : id;
    }
    return C10_LIKELY(id == kSharedPool) ? devices_[device].shared : private_pool(device, id);
  }

  void note_taken(uint64_t capture, const Block& block) {
    if (const auto routed = captures_.find(capture); routed != captures_.end()) {
      routed->second.taken.push_back({block.pointer, block.size});
    }
  }

  Pools& private_pool(c10::DeviceIndex device, c10::MempoolId_t id) {
    return devices_[device].private_pools.try_emplace(id, id).first->second;
  }

  Pools& pools_of(const Block& block) {
    const c10::MempoolId_t id = block.pool->id;
    return id == kSharedPool ? devices_[block.device].shared : private_pool(block.device, id);
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

  // The best fitting cached block, taken out of its pool; null if there is none. With `spare`, a small request leaves
  // a block of a large segment alone: as long as it holds one, that segment could not be given back.
  Block* find_cached(Pool& pool, c10::StreamId stream, size_t size, bool spare) {
    Block key{0, stream, nullptr, nullptr, size};
    const auto found = pool.free.lower_bound(&key);
    if (found == pool.free.end() || (*found)->stream != stream) {
      return nullptr;
    }
    Block* block = *found;
    if (spare && !pool.small && size < kOwnSegment && block->size >= kLargeSegment + kOwnSegment) {
      return nullptr;
    }
    remove_from_pool(block);
    return block;
  }

  // A new segment; if the limit or the host forbids it, after giving back what is cached. Raises OutOfMemoryError.
  Block* reserve(c10::DeviceIndex device, Pool& pool, c10::StreamId stream, size_t size, size_t requested,
                 std::unique_lock<std::mutex>& lock) {
    if (Block* block = new_segment(device, pool, stream, size)) {
      return block;
    }
    DeviceStats& stats = devices_[device].stats;
    ++stats.num_alloc_retries;
    ++stats.num_sync_all_streams;
    lock.unlock();
    wait_for_all_streams(device);
    lock.lock();
    reclaim_pending(device);
    if (Block* block = find_cached(pool, stream, size, /*spare=*/false)) {
      return block;
    }
    release_cached(device);
    if (Block* block = new_segment(device, pool, stream, size)) {
      return block;
    }
    ++stats.num_ooms;
    raise_out_of_memory(device, requested, lock);
  }

  Block* new_segment(c10::DeviceIndex device, Pool& pool, c10::StreamId stream, size_t size) {
    DeviceStats& stats = devices_[device].stats;
    const size_t usual = pool.small           ? kSmallSegment
                         : size < kOwnSegment ? kLargeSegment
                                              : round_up(size, kSegmentRounding);
    const size_t reserved = current_of(stats.reserved_bytes);
    const size_t room = limit_of(device) - std::min(limit_of(device), reserved);
    // Close to the limit a segment of just this size may still do.
    const size_t bytes = usual <= room ? usual : round_up(size, kAlignment);
    if (bytes > room) {
      return nullptr;
    }
    void* memory = driver::allocate(device, bytes);
    if (memory == nullptr) {
      return nullptr;
    }
    auto* block = new Block{device, stream, &pool, static_cast<char*>(memory), bytes};
    segments_.emplace(block->pointer, Segment{block, bytes});
    ++pools_of(*block).segments;
    ++stats.num_device_alloc;
    increase(stats.segment, pool, 1);
    increase(stats.reserved_bytes, pool, bytes);
    return block;
  }

  void split(Block* block, size_t size) {
    const size_t rest = block->size - size;
    const bool worth_it = block->pool->small ? rest >= kAlignment : rest > kSmallRequest;
    if (!worth_it) {
      return;
    }
    auto* remaining = new Block{block->device, block->stream, block->pool, block->pointer + size, rest};
    remaining->before = block;
    remaining->after = block->after;
    if (block->after != nullptr) {
      block->after->before = remaining;
    }
    block->after = remaining;
    block->size = size;
    add_to_pool(remaining);
  }

  void return_to_pool(Block* block) {
    DeviceStats& stats = devices_[block->device].stats;
    decrease(stats.active, *block->pool, 1);
    decrease(stats.active_bytes, *block->pool, block->size);
    block->requested = 0;
    if (block->after != nullptr && block->after->is_free()) {
      remove_from_pool(block->after);
      absorb_next(block);
    }
    if (block->before != nullptr && block->before->is_free()) {
      block = block->before;
      remove_from_pool(block);
      absorb_next(block);
    }
    add_to_pool(block);
  }

  void absorb_next(Block* block) {
    Block* next = block->after;
    block->size += next->size;
    block->after = next->after;
    if (next->after != nullptr) {
      next->after->before = block;
    }
    delete next;
  }

  void add_to_pool(Block* block) {
    block->pool->free.insert(block);
    if (block->is_split()) {
      DeviceStats& stats = devices_[block->device].stats;
      increase(stats.inactive_split, *block->pool, 1);
      increase(stats.inactive_split_bytes, *block->pool, block->size);
    }
  }

  void remove_from_pool(Block* block) {
    block->pool->free.erase(block);
    if (block->is_split()) {
      DeviceStats& stats = devices_[block->device].stats;
      decrease(stats.inactive_split, *block->pool, 1);
      decrease(stats.inactive_split_bytes, *block->pool, block->size);
    }
  }

  void finish_use(const PendingUse& use) {
    driver::destroy(use.event);
    if (--use.block->pending_uses == 0) {
      return_to_pool(use.block);
    }
  }

  // Takes back the blocks whose other streams have passed their free.
  void reclaim_passed(c10::DeviceIndex device) {
    auto& pending = devices_[device].pending;
    while (!pending.empty() && driver::query(pending.front().event)) {
      finish_use(pending.front());
      pending.pop_front();
    }
  }

  // The same for those behind a stream that lags.
  void reclaim_pending(c10::DeviceIndex device) {
    auto& pending = devices_[device].pending;
    std::deque<PendingUse> still;
    for (const PendingUse& use : pending) {
      if (driver::query(use.event)) {
        finish_use(use);
      } else {
        still.push_back(use);
      }
    }
    pending = std::move(still);
  }

  // Gives back every segment that is free as a whole and that no captured graph counts on. The device must be idle.
  void release_cached(c10::DeviceIndex device) {
    release_free(device, devices_[device].shared);
    auto& private_pools = devices_[device].private_pools;
    for (auto it = private_pools.begin(); it != private_pools.end();) {
      Pools& pools = it->second;
      if (pools.owners == 0) {
        release_free(device, pools);
      }
      it = pools.owners == 0 && pools.segments == 0 ? private_pools.erase(it) : std::next(it);
    }
  }

  void release_free(c10::DeviceIndex device, Pools& pools) {
    DeviceStats& stats = devices_[device].stats;
    for (Pool* pool : {&pools.small, &pools.large}) {
      for (auto it = pool->free.begin(); it != pool->free.end();) {
        Block* block = *it;
        if (block->is_split()) {
          ++it;
          continue;
        }
        it = pool->free.erase(it);
        segments_.erase(block->pointer);
        --pools.segments;
        ++stats.num_device_free;
        decrease(stats.segment, *pool, 1);
        decrease(stats.reserved_bytes, *pool, block->size);
        driver::release(device, block->pointer, block->size);
        delete block;
      }
    }
  }

  [[noreturn]] void raise_out_of_memory(c10::DeviceIndex device, size_t requested, std::unique_lock<std::mutex>& lock) {
    const DeviceStats& stats = devices_[device].stats;
    const size_t reserved = current_of(stats.reserved_bytes);
    const size_t allocated = current_of(stats.allocated_bytes);
    const size_t limit = limit_of(device);
    lock.unlock();
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(requested), allocated, reserved, c10::Device(kNpu, device));
    const bool host_is_full = requested <= limit - std::min(limit, reserved);
    TORCH_CHECK_WITH(
        OutOfMemoryError, false, "npu out of memory. Tried to allocate ", format_size(requested),
        ". npu:", static_cast<int>(device), " has a capacity of ", format_size(limit), ", of which ",
        format_size(limit - std::min(limit, reserved)), " is free; ", format_size(reserved),
        " is reserved by PyTorch, ", format_size(allocated), " of that allocated and ",
        format_size(reserved - allocated), " reserved but unallocated. ",
        host_is_full ? "The host itself has no more memory: device memory of the embedded NPU is host memory. "
                     : "The capacity is set by INDUCTOR_NPU_SIM_MEMORY (such as 8GiB) and "
                       "torch.npu.set_per_process_memory_fraction. ",
        "Free tensors that are not needed, or use a smaller batch; the program can go on after this error");
  }

  bool in_use(c10::DeviceIndex device) {
    const DeviceMemory& memory = devices_[device];
    return !memory.shared.small.free.empty() || !memory.shared.large.free.empty() || !memory.pending.empty() ||
           !memory.private_pools.empty();
  }

  size_t limit_of(c10::DeviceIndex device) {
    return devices_[device].limit != 0 ? devices_[device].limit : configuration().memory_bytes;
  }

  // Tells the profiler, without the lock: it may call anything.
  void report(void* pointer, int64_t change, c10::DeviceIndex device, std::unique_lock<std::mutex>& lock) {
    if (C10_LIKELY(!c10::memoryProfilingEnabled())) {
      return;
    }
    const size_t allocated = current_of(devices_[device].stats.allocated_bytes);
    const size_t reserved = current_of(devices_[device].stats.reserved_bytes);
    lock.unlock();
    c10::reportMemoryUsageToProfiler(pointer, change, allocated, reserved, c10::Device(kNpu, device));
  }

  std::mutex mutex_;
  std::array<DeviceMemory, kMaxDevices> devices_;
  std::unordered_map<void*, Block*> allocated_;  // by address
  std::map<char*, Segment> segments_;            // by address
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
