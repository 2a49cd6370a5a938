// Pinned host memory: host memory that is known to the device, cached, and not reused before the streams
// that copy from or to it have passed.
#include <ATen/core/CachingHostAllocator.h>

#include <map>
#include <memory>
#include <shared_mutex>

#include "runtime.h"

namespace inductor_npu {
namespace {

// Which addresses are pinned.
class PinnedRanges {
 public:
  static PinnedRanges& instance() {
    static auto* ranges = new PinnedRanges();  // never destroyed: pinned tensors may outlive static objects
    return *ranges;
  }
  void add(const void* begin, size_t size) {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    ranges_[static_cast<const char*>(begin)] = size;
  }
  void remove(const void* begin) {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    ranges_.erase(static_cast<const char*>(begin));
  }
  bool contains(const void* pointer) {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    const auto* address = static_cast<const char*>(pointer);
    const auto above = ranges_.upper_bound(address);
    if (above == ranges_.begin()) {
      return false;
    }
    const auto& [begin, size] = *std::prev(above);
    return address < begin + size;
  }

 private:
  std::shared_mutex mutex_;
  std::map<const char*, size_t> ranges_;
};

// The event type that the caching template wants: movable, with an owner.
struct DestroyEvent {
  void operator()(driver::Event* event) const { driver::destroy(event); }
};
using OwnedEvent = std::unique_ptr<driver::Event, DestroyEvent>;

struct PinnedAllocatorImpl final : at::CachingHostAllocatorImpl<c10::Stream, OwnedEvent> {
 private:
  void allocate_host_memory(size_t size, void** pointer) override {
    ensure_open();
    *pointer = driver::allocate_pinned(size);
    TORCH_CHECK(*pointer != nullptr, "Cannot allocate ", size,
                " bytes of pinned host memory: the host has no more memory");
    PinnedRanges::instance().add(*pointer, size);
  }
  void free_block(at::HostBlock<c10::Stream>* block) override {
    PinnedRanges::instance().remove(block->ptr_);
    driver::release_pinned(block->ptr_);
  }
  void record_stream(std::optional<std::vector<OwnedEvent>>& events, c10::Stream stream) override {
    OwnedEvent event(driver::create_event(/*timing=*/false));
    driver::record(event.get(), native(stream));
    events->push_back(std::move(event));
  }
  bool query_event(OwnedEvent& event) override { return driver::query(event.get()); }
  c10::Stream get_current_stream() const override { return current_stream(); }
};

void delete_pinned(void* context);

struct PinnedAllocator final : at::CachingHostAllocatorInterface<PinnedAllocatorImpl, delete_pinned> {};

PinnedAllocator& pinned_allocator() {
  static auto* instance = new PinnedAllocator();
  return *instance;
}

void delete_pinned(void* context) {
  if (is_open()) {  // in a forked child the memory goes with the process
    pinned_allocator().free(context);
  }
}

const at::HostAllocatorRegistry<kNpu> registered(&pinned_allocator());

}  // namespace

bool is_pinned_pointer(const void* pointer) {
  return is_open() && (PinnedRanges::instance().contains(pointer) || driver::is_pinned_by_others(pointer));
}

bool record_pinned_use(void* pointer, void* context, c10::Stream stream) {
  return pinned_allocator().record_event(pointer, context, stream);
}

}  // namespace inductor_npu
