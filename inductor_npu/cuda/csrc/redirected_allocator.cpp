#include "redirected_allocator.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/version.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allocator.h"
#include "library.h"
#include "native_stream.h"
#include "runtime.h"

#define TORCH_AT_LEAST(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

namespace inductor_npu {
namespace {

namespace cuda = c10::cuda::CUDACachingAllocator;
using c10::CachingDeviceAllocator::DeviceStats;

// Everything but allocation is PyTorch's own allocator's.
class RedirectedAllocator final : public cuda::CUDAAllocator {
 public:
  explicit RedirectedAllocator(cuda::CUDAAllocator* own) : own_(own) {}

  // --- Ours, where an operator runs for an npu ---

  c10::DataPtr allocate(size_t bytes) override {
    if (!library::allocation_device.has_value() || bytes == 0) {
      return own_->allocate(bytes);
    }
    c10::DataPtr memory = device_allocator()->allocate(bytes);
    memory.unsafe_set_device(library::device_for(*library::allocation_device));
    return memory;
  }
  void* raw_alloc(size_t bytes) override {
    return library::allocation_device.has_value() ? device_allocator()->raw_allocate(bytes) : own_->raw_alloc(bytes);
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    return library::allocation_device.has_value() ? device_allocator()->raw_allocate(bytes)
                                                  : own_->raw_alloc_with_stream(bytes, stream);
  }
  void raw_delete(void* memory) override {
    is_npu_pointer(memory) ? device_allocator()->raw_deallocate(memory) : own_->raw_delete(memory);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void recordStream(const c10::DataPtr& memory, c10::cuda::CUDAStream stream) override {
    if (!is_npu_pointer(memory.get())) {
      own_->recordStream(memory, stream);
    }
    // Memory of npu is used on streams of npu, which the npu's own record_stream knows.
  }
  void* getBaseAllocation(void* memory, size_t* size) override { return own_->getBaseAllocation(memory, size); }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream,
                          bool peers) override {
    return own_->memcpyAsync(to, to_device, from, from_device, bytes, stream, peers);
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { own_->copy_data(to, from, bytes); }

  // --- Handed on ---

  bool initialized() override { return own_->initialized(); }
  void init(int devices) override { own_->init(devices); }
  std::string name() override { return own_->name(); }
  void enable(bool on) override { own_->enable(on); }
  bool isEnabled() const override { return own_->isEnabled(); }
  double getMemoryFraction(c10::DeviceIndex device) override { return own_->getMemoryFraction(device); }
  void setMemoryFraction(double share, c10::DeviceIndex device) override { own_->setMemoryFraction(share, device); }
  std::vector<cuda::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex device) override {
    return own_->getExpandableSegmentSizes(device);
  }
  void emptyCache(c10::MempoolId_t pool) override { own_->emptyCache(pool); }
  void cacheInfo(c10::DeviceIndex device, size_t* largest) override { own_->cacheInfo(device, largest); }
  DeviceStats getDeviceStats(c10::DeviceIndex device) override { return own_->getDeviceStats(device); }
  void resetAccumulatedStats(c10::DeviceIndex device) override { own_->resetAccumulatedStats(device); }
  void resetPeakStats(c10::DeviceIndex device) override { own_->resetPeakStats(device); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override { return own_->getMemoryInfo(device); }
  cuda::SnapshotInfo snapshot(c10::MempoolId_t pool, bool traces) override { return own_->snapshot(pool, traces); }
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    own_->beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    own_->endAllocateToPool(device, pool);
  }
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override { own_->releasePool(device, pool); }
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    return own_->getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                          std::shared_ptr<cuda::CUDAAllocator> allocator) override {
    own_->createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool, bool use) override {
    own_->setUseOnOOM(device, pool, use);
  }
  void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t pool) override { own_->setNoSplit(device, pool); }
  bool checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override {
    return own_->checkPoolLiveAllocations(device, pool, expected);
  }
  cuda::ShareableHandle shareIpcHandle(void* memory) override { return own_->shareIpcHandle(memory); }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override { return own_->getIpcDevPtr(std::move(handle)); }
  bool isHistoryEnabled() override { return own_->isHistoryEnabled(); }
  void recordHistory(bool on, cuda::CreateContextFn context, size_t most, cuda::RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override {
    own_->recordHistory(on, context, most, when, clear, skipped);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& annotation) override {
    own_->recordAnnotation(annotation);
  }
  void pushCompileContext(std::string& context) override { own_->pushCompileContext(context); }
  void popCompileContext() override { own_->popCompileContext(); }
  void setUserMetadata(const std::string& data) override { own_->setUserMetadata(data); }
  std::string getUserMetadata() override { return own_->getUserMetadata(); }
  void attachOutOfMemoryObserver(cuda::OutOfMemoryObserver observer) override {
    own_->attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(cuda::AllocatorTraceTracker tracker) override {
    own_->attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(c10::DeviceIndex from, c10::DeviceIndex to) override { own_->enablePeerAccess(from, to); }
  std::shared_ptr<cuda::AllocatorState> getCheckpointState(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    return own_->getCheckpointState(device, pool);
  }
  cuda::CheckpointDelta setCheckpointPoolState(c10::DeviceIndex device,
                                               std::shared_ptr<cuda::AllocatorState> state) override {
    return own_->setCheckpointPoolState(device, std::move(state));
  }
#if TORCH_AT_LEAST(14)
  void attachOomRejectionObserver(cuda::OomRejectionObserver observer) override {
    own_->attachOomRejectionObserver(std::move(observer));
  }
  void markCaptureBegin(c10::DeviceIndex device) override { own_->markCaptureBegin(device); }
  void markCaptureEnd(c10::DeviceIndex device) override { own_->markCaptureEnd(device); }
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* memory) override {
    return own_->getContextForPointer(memory);
  }
  bool supportsUserMetadata() override { return own_->supportsUserMetadata(); }
  void annotateMemory(const void* memory, const std::string& data) override { own_->annotateMemory(memory, data); }
  c10::DataPtr allocateWithAddress(size_t bytes, void* address) override {
    return own_->allocateWithAddress(bytes, address);
  }
#endif

 private:
  // Workspaces of libraries may be of either kind.
  static void release(void* memory) { cuda::get()->raw_delete(memory); }

  cuda::CUDAAllocator* const own_;
};

}  // namespace

void redirect_allocations() {
  // Never destroyed: storages that outlive static destruction may still ask for it.
  auto* redirected = new RedirectedAllocator(cuda::get());
  cuda::allocator.store(redirected);
  c10::SetAllocator(c10::DeviceType::CUDA, redirected, /*priority=*/1);
}

}  // namespace inductor_npu
