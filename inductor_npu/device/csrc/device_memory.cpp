#include "device_memory.h"

#include <unistd.h>

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace inductor_npu {
namespace {

using Settings = c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kAlignment = 512;      // of every block
constexpr size_t kSmallRequest = kMiB;  // requests up to here come from small segments
constexpr size_t kSmallSegment = 2 * kMiB;
constexpr size_t kOwnSegment = 10 * kMiB;  // requests from here on get a segment of their own; others share one
constexpr size_t kSegmentRounding = 2 * kMiB;

size_t round_up(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

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

}  // namespace

size_t block_size(size_t requested) {
  const size_t divisions = Settings::roundup_power2_divisions(requested);
  if (divisions > 1 && requested > kAlignment * divisions) {
    // To one of so many steps between two powers of two.
    const size_t step = std::bit_floor(requested) / divisions;
    return round_up(round_up(requested, step), kAlignment);
  }
  return round_up(requested, kAlignment);
}

Pool& Pools::for_size(size_t size) {
  return size <= kSmallRequest ? small : large;
}

// --- Segments --------------------------------------------------------------------------------------------------------

const Segment* Segments::at(const void* pointer) const {
  const auto* address = static_cast<const char*>(pointer);
  const auto above = by_address_.upper_bound(const_cast<char*>(address));
  if (above == by_address_.begin()) {
    return nullptr;
  }
  const auto& [begin, segment] = *std::prev(above);
  return address < begin + segment.size ? &segment : nullptr;
}

Block* Segments::block_at(const void* pointer) const {
  const Segment* segment = at(pointer);
  Block* block = segment != nullptr ? segment->first : nullptr;
  while (block != nullptr && static_cast<const char*>(pointer) >= block->pointer + block->size) {
    block = block->after;
  }
  return block;
}

// --- Statistics and limit --------------------------------------------------------------------------------------------

void DeviceMemory::reset_peaks() {
  for_each_stat(stats, [](auto& stat) { stat.reset_peak(); });
}

void DeviceMemory::reset_accumulated() {
  for_each_stat(stats, [](auto& stat) { stat.reset_accumulated(); });
  stats.num_alloc_retries = stats.num_ooms = stats.num_sync_all_streams = 0;
  stats.num_device_alloc = stats.num_device_free = 0;
}

size_t DeviceMemory::allocated_bytes() const {
  return current_of(stats.allocated_bytes);
}

size_t DeviceMemory::reserved_bytes() const {
  return current_of(stats.reserved_bytes);
}

size_t DeviceMemory::limit() const {
  return limit_ != 0 ? limit_ : configuration().memory_bytes;
}

size_t DeviceMemory::room() const {
  return limit() - std::min(limit(), reserved_bytes());
}

// --- Pools -----------------------------------------------------------------------------------------------------------

Pools& DeviceMemory::pools(c10::MempoolId_t id) {
  return C10_LIKELY(id == kSharedPool) ? shared_ : private_pools_.try_emplace(id, id).first->second;
}

Pools* DeviceMemory::find_private(c10::MempoolId_t id) {
  const auto found = private_pools_.find(id);
  return found != private_pools_.end() ? &found->second : nullptr;
}

void DeviceMemory::add_to_pool(Block* block) {
  block->freed_at = block->pool->searches;
  block->pool->free.insert(block);
  if (block->is_split()) {
    increase(stats.inactive_split, *block->pool, 1);
    increase(stats.inactive_split_bytes, *block->pool, block->size);
  }
}

void DeviceMemory::remove_from_pool(Block* block) {
  block->pool->free.erase(block);
  if (block->is_split()) {
    decrease(stats.inactive_split, *block->pool, 1);
    decrease(stats.inactive_split_bytes, *block->pool, block->size);
  }
}

// --- Blocks ----------------------------------------------------------------------------------------------------------

Block* DeviceMemory::find_cached(Pool& pool, c10::StreamId stream, size_t size, bool spare) {
  ++pool.searches;
  Block key{0, stream, nullptr, nullptr, size};
  const auto found = pool.free.lower_bound(&key);
  if (found == pool.free.end() || (*found)->stream != stream) {
    return nullptr;
  }
  Block* block = *found;
  const size_t max_split = Settings::max_split_size();
  const bool too_large = size < max_split ? block->size >= max_split
                                          : block->size >= size + Settings::max_non_split_rounding_size();
  if (too_large) {
    return nullptr;
  }
  if (spare && !pool.small && size < kOwnSegment && block->size >= Settings::large_segment_size() + kOwnSegment) {
    return nullptr;
  }
  remove_from_pool(block);
  return block;
}

void DeviceMemory::hand_out(Block* block, size_t size, size_t requested) {
  split(block, size);
  block->allocated = true;
  block->requested = requested;
  const Pool& pool = *block->pool;
  increase(stats.allocation, pool, 1);
  increase(stats.allocated_bytes, pool, block->size);
  increase(stats.requested_bytes, pool, requested);
  increase(stats.active, pool, 1);
  increase(stats.active_bytes, pool, block->size);
  block->oversize = block->size >= Settings::max_split_size();
  if (block->oversize) {
    stats.oversize_allocations.increase(1);
  }
  block->stack = CallStack::current();
  record(MemoryAction::Alloc, *block, requested);
}

void DeviceMemory::take_back(Block* block, const std::vector<driver::Event*>& passed) {
  block->allocated = false;
  if (CallStack::current() != nullptr) {
    block->stack = CallStack::current();
  }
  record(MemoryAction::FreeRequested, *block, block->requested, block->stack);
  decrease(stats.allocation, *block->pool, 1);
  decrease(stats.allocated_bytes, *block->pool, block->size);
  decrease(stats.requested_bytes, *block->pool, block->requested);
  if (block->oversize) {
    stats.oversize_allocations.decrease(1);
  }
  for (driver::Event* event : passed) {
    pending_.push_back({event, block});
    ++block->pending_uses;
  }
  if (block->is_free()) {
    return_to_pool(block);
  }
}

void DeviceMemory::record(MemoryAction action, const Block& block, size_t size, const Stack& stack) {
  history_.add(device_, action, block.pointer, size, block.stream, block.pool->id, stack);
}

void DeviceMemory::split(Block* block, size_t size) {
  const size_t rest = block->size - size;
  const bool worth_it =
      block->pool->small ? rest >= kAlignment : size < Settings::max_split_size() && rest > kSmallRequest;
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

void DeviceMemory::return_to_pool(Block* block) {
  decrease(stats.active, *block->pool, 1);
  decrease(stats.active_bytes, *block->pool, block->size);
  record(MemoryAction::FreeCompleted, *block, block->requested, block->stack);
  block->requested = 0;
  block->stack.reset();
  if (block->descriptor != -1) {
    release_segment(block);  // for the sake of the other processes, which may have no use for it either
    return;
  }
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

void DeviceMemory::absorb_next(Block* block) {
  Block* next = block->after;
  block->size += next->size;
  block->after = next->after;
  if (next->after != nullptr) {
    next->after->before = block;
  }
  delete next;
}

// --- What other streams have used ------------------------------------------------------------------------------------

void DeviceMemory::finish_use(const PendingUse& use) {
  driver::destroy(use.event);
  if (--use.block->pending_uses == 0) {
    return_to_pool(use.block);
  }
}

void DeviceMemory::reclaim_passed() {
  while (!pending_.empty() && driver::query(pending_.front().event)) {
    finish_use(pending_.front());
    pending_.pop_front();
  }
}

void DeviceMemory::reclaim_pending() {
  std::deque<PendingUse> still;
  for (const PendingUse& use : pending_) {
    if (driver::query(use.event)) {
      finish_use(use);
    } else {
      still.push_back(use);
    }
  }
  pending_ = std::move(still);
}

// --- Segments of this device -----------------------------------------------------------------------------------------

Block* DeviceMemory::new_segment(Pool& pool, c10::StreamId stream, size_t size) {
  const size_t usual = pool.small           ? kSmallSegment
                       : size < kOwnSegment ? Settings::large_segment_size()
                                            : round_up(size, kSegmentRounding);
  // Close to the limit a segment of just this size may still do.
  const size_t bytes = usual <= room() ? usual : round_up(size, kAlignment);
  if (bytes > room()) {
    return nullptr;
  }
  void* memory = driver::allocate(device_, bytes);
  if (memory == nullptr) {
    return nullptr;
  }
  return add_segment(memory, pool, stream, bytes);
}

Block* DeviceMemory::shared_segment(int descriptor, c10::StreamId stream, size_t size) {
  if (size > room()) {
    return nullptr;
  }
  void* memory = driver::map_shared(device_, descriptor, size);
  if (memory == nullptr) {
    return nullptr;
  }
  Block* block = add_segment(memory, shared_.for_size(size), stream, size);
  block->descriptor = descriptor;
  return block;
}

Block* DeviceMemory::add_segment(void* memory, Pool& pool, c10::StreamId stream, size_t bytes) {
  auto* block = new Block{device_, stream, &pool, static_cast<char*>(memory), bytes};
  const bool oversize = bytes >= Settings::max_split_size();
  if (oversize) {
    stats.oversize_segments.increase(1);
  }
  segments_.add(block, oversize);
  ++pools(pool.id).segments;
  ++stats.num_device_alloc;
  increase(stats.segment, pool, 1);
  increase(stats.reserved_bytes, pool, bytes);
  record(MemoryAction::SegmentAlloc, *block, bytes);
  return block;
}

DeviceMemory::Taken DeviceMemory::take_cached() {
  Taken taken;
  take_free(shared_, taken);
  for (auto& [id, pools] : private_pools_) {
    if (pools.owners == 0) {
      take_free(pools, taken);
    }
  }
  return taken;
}

DeviceMemory::Taken DeviceMemory::take_private(c10::MempoolId_t id) {
  Taken taken;
  take_free(private_pools_.at(id), taken);
  return taken;
}

void DeviceMemory::take_free(Pools& pools, Taken& taken) {
  for (Pool* pool : {&pools.small, &pools.large}) {
    std::erase_if(pool->free, [&](Block* block) {
      if (!block->is_split()) {
        taken.push_back(block);
      }
      return !block->is_split();
    });
  }
}

DeviceMemory::Taken DeviceMemory::take(const Taken& whole) {
  for (Block* block : whole) {
    block->pool->free.erase(block);
  }
  return whole;
}

void DeviceMemory::release(const Taken& taken) {
  for (Block* block : taken) {
    release_segment(block);
  }
  std::erase_if(private_pools_, [](const auto& entry) {
    const Pools& pools = entry.second;
    return pools.owners == 0 && pools.segments == 0 && pools.reserving == 0;
  });
}

// `whole` is a free block that is in no pool.
void DeviceMemory::release_segment(Block* whole) {
  record(MemoryAction::SegmentFree, *whole, whole->size);
  const Pool& pool = *whole->pool;
  if (segments_.at(whole->pointer)->oversize) {
    stats.oversize_segments.decrease(1);
  }
  segments_.remove(whole);
  --pools(pool.id).segments;
  ++stats.num_device_free;
  decrease(stats.segment, pool, 1);
  decrease(stats.reserved_bytes, pool, whole->size);
  driver::release(device_, whole->pointer, whole->size);
  if (whole->descriptor != -1) {
    close(whole->descriptor);
  }
  delete whole;
}

DeviceMemory::Taken DeviceMemory::take_oversize(Pool& pool, c10::StreamId stream, size_t size) {
  const size_t max_split = Settings::max_split_size();
  if (max_split == std::numeric_limits<size_t>::max()) {
    return {};
  }
  const size_t wanted = std::max(size, max_split);
  Taken candidates;  // from small to large
  Block key{0, stream, nullptr, nullptr, max_split};
  for (auto it = pool.free.lower_bound(&key); it != pool.free.end() && (*it)->stream == stream; ++it) {
    if (!(*it)->is_split()) {
      candidates.push_back(*it);
    }
  }
  const auto enough =
      std::find_if(candidates.begin(), candidates.end(), [&](const Block* block) { return block->size >= wanted; });
  if (enough != candidates.end()) {
    return take({*enough});
  }
  Taken largest;
  size_t bytes = 0;
  for (auto it = candidates.rbegin(); it != candidates.rend() && bytes < wanted; ++it) {
    bytes += (*it)->size;
    largest.push_back(*it);
  }
  return take(largest);
}

size_t DeviceMemory::garbage() const {
  const double threshold = Settings::garbage_collection_threshold();
  const auto allowed = static_cast<size_t>(threshold * static_cast<double>(limit()));
  if (threshold <= 0 || reserved_bytes() <= allowed) {
    return 0;
  }
  const auto& free = shared_.large.free;
  const bool any = std::any_of(free.begin(), free.end(), [](const Block* block) { return !block->is_split(); });
  return any ? reserved_bytes() - allowed : 0;
}

DeviceMemory::Taken DeviceMemory::take_oldest(size_t bytes) {
  Taken whole;
  std::copy_if(shared_.large.free.begin(), shared_.large.free.end(), std::back_inserter(whole),
               [](const Block* block) { return !block->is_split(); });
  std::sort(whole.begin(), whole.end(), [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; });
  size_t taken = 0;
  size_t count = 0;
  for (; count < whole.size() && taken < bytes; ++count) {
    taken += whole[count]->size;
  }
  whole.resize(count);
  return take(whole);
}

bool DeviceMemory::holds_cached() const {
  return !shared_.small.free.empty() || !shared_.large.free.empty() || !pending_.empty() || !private_pools_.empty();
}

}  // namespace inductor_npu
