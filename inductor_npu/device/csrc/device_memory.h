// Memory of one device: segments from the driver, cut into blocks, which pools keep while they are free.
//
// Nothing here locks: whoever calls holds the allocator's lock.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "allocator.h"
#include "memory_history.h"
#include "runtime.h"

namespace inductor_npu {

constexpr c10::MempoolId_t kSharedPool{0, 0};

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
  bool oversize = false;    // too large to be split (max_split_size_mb) when it was handed out
  int pending_uses = 0;     // streams that have not passed the point of its free yet
  Block* before = nullptr;  // neighbours in the segment
  Block* after = nullptr;
  int descriptor = -1;      // of memory that other processes have, too: never cached, not cut
  uint64_t freed_at = 0;    // of its pool's searches
  uint64_t number = 0;      // of the allocation, counted over all devices
  Stack stack{};            // from where it was allocated, or freed while other streams use it
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
  uint64_t searches = 0;  // for free blocks: their ages are counted in these
};

// Small and large blocks with one id.
struct Pools {
  explicit Pools(c10::MempoolId_t id) : small(true, id), large(false, id) {}
  Pool small, large;
  int owners = 0;  // of a private pool
  int segments = 0;
  int reserving = 0;  // threads that make a segment, or wait to
  Pool& for_size(size_t size);
};

struct Segment {
  Block* first;
  size_t size;
  bool oversize;  // too large to be split when it was made
  Stack stack;    // from where it was made
};

// The segments of all devices.
class Segments {
 public:
  // The one that `pointer` lies in, or null.
  const Segment* at(const void* pointer) const;
  Block* block_at(const void* pointer) const;
  void add(Block* whole, bool oversize) {
    by_address_.emplace(whole->pointer, Segment{whole, whole->size, oversize, CallStack::current()});
  }
  void remove(const Block* whole) { by_address_.erase(whole->pointer); }
  const std::map<char*, Segment>& by_address() const { return by_address_; }

 private:
  std::map<char*, Segment> by_address_;
};

// The settings are PyTorch's own for all accelerators (c10/core/AllocatorConfig.h, PYTORCH_ALLOC_CONF).
class DeviceMemory {
 public:
  DeviceMemory(c10::DeviceIndex device, Segments& segments, MemoryHistory& history)
      : device_(device), segments_(segments), history_(history) {}

  c10::CachingDeviceAllocator::DeviceStats stats;
  void reset_peaks();
  void reset_accumulated();
  size_t allocated_bytes() const;
  size_t reserved_bytes() const;

  // The most that may be reserved: what was set, else the configured capacity.
  size_t limit() const;
  void set_limit(size_t limit) { limit_ = limit; }
  size_t room() const;  // below the limit

  // A private pool that is not there is made.
  Pools& pools(c10::MempoolId_t id);
  Pools* find_private(c10::MempoolId_t id);

  // The best fitting cached block, taken out of its pool; null if there is none. A block that max_split_size_mb
  // forbids to split serves only requests of about its size. With `spare`, a small request leaves a block of a large
  // segment alone: as long as it holds one, that segment could not be given back.
  Block* find_cached(Pool& pool, c10::StreamId stream, size_t size, bool spare);
  // A block that is a whole new segment; null if the limit or the driver forbids it.
  Block* new_segment(Pool& pool, c10::StreamId stream, size_t size);
  // A block over memory that other processes have, too: that of `descriptor`, which is the block's from then on.
  Block* shared_segment(int descriptor, c10::StreamId stream, size_t size);
  // Makes `size` bytes of a block that is in no pool somebody's; the rest goes back to the pool.
  void hand_out(Block* block, size_t size, size_t requested);
  // The block is nobody's any more. It goes back to its pool at once, or when each of `passed` has been.
  void take_back(Block* block, const std::vector<driver::Event*>& passed);

  // Takes back the blocks whose other streams have passed their free.
  void reclaim_passed();
  // The same for those behind a stream that lags.
  void reclaim_pending();

  // Segments that are free as a whole, out of their pools, so that nobody gets them any more. Work that is queued by then
  // may still use them: whoever takes them waits for it, then gives them back with `release`.
  using Taken = std::vector<Block*>;
  // All that no captured graph counts on.
  Taken take_cached();
  // Those of a private pool.
  Taken take_private(c10::MempoolId_t id);
  // Of `pool` and `stream`, such as are too large to be split: one of at least `size` bytes, or the largest ones, that
  // many bytes in all. None if that cannot be.
  Taken take_oversize(Pool& pool, c10::StreamId stream, size_t size);
  // About `bytes` bytes of large segments, those first that were free for the most searches.
  Taken take_oldest(size_t bytes);
  // Gives them back to the driver, and forgets private pools of which nobody has anything any more.
  void release(const Taken& taken);

  // What is reserved above garbage_collection_threshold, if there are whole segments to give back for it; else 0.
  size_t garbage() const;
  // Whether there is something to reclaim or release.
  bool holds_cached() const;

 private:
  struct PendingUse {
    driver::Event* event;
    Block* block;
  };

  void split(Block* block, size_t size);
  Block* add_segment(void* memory, Pool& pool, c10::StreamId stream, size_t bytes);
  void return_to_pool(Block* block);
  void absorb_next(Block* block);
  void add_to_pool(Block* block);
  void remove_from_pool(Block* block);
  void finish_use(const PendingUse& use);
  static void take_free(Pools& pools, Taken& taken);
  static Taken take(const Taken& whole);
  void release_segment(Block* whole);
  void record(MemoryAction action, const Block& block, size_t size, const Stack& stack = CallStack::current());

  const c10::DeviceIndex device_;
  Segments& segments_;
  MemoryHistory& history_;
  Pools shared_{kSharedPool};
  std::map<c10::MempoolId_t, Pools> private_pools_;
  std::deque<PendingUse> pending_;
  size_t limit_ = 0;
};

// `requested`, rounded up to what a block may have.
size_t block_size(size_t requested);

}  // namespace inductor_npu
