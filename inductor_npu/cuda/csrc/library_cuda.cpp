// PyTorch's CUDA operators on memory of npu.
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <mutex>

#include "library.h"
#include "native_stream.h"
#include "redirected_allocator.h"
#include "runtime.h"

namespace inductor_npu::library {
namespace {

// CUDA's operators are ready for memory of npu.
void prepare() {
  static std::once_flag once;
  std::call_once(once, [] {
    ensure_open();
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    redirect_allocations();
  });
}

// Under this name PyTorch knows a stream that it did not make.
c10::cuda::CUDAStream stream_for(c10::Device device) {
  driver::Stream* stream = native(current_stream(device.index()));
  return c10::cuda::getStreamFromExternal(driver::native_stream(stream), device.index());
}

}  // namespace

c10::Allocator* allocator() {
  prepare();
  return c10::GetAllocator(c10::DeviceType::CUDA);
}

struct InOrder::Guard {
  explicit Guard(c10::Device device) : stream(stream_for(device)) {}
  c10::cuda::CUDAStreamGuard stream;
};

InOrder::InOrder(c10::Device device) {
  prepare();
  guard_ = std::make_unique<Guard>(device);
}

InOrder::~InOrder() = default;

// The state is that of a generator of CUDA, which has the same: a seed and an offset, moved on by what operators draw.
struct GeneratorState::State {
  at::Generator generator;
};

GeneratorState::GeneratorState(c10::DeviceIndex device, uint64_t seed, uint64_t offset) : state_(new State) {
  prepare();
  state_->generator = at::globalContext().getAcceleratorHooksInterface(c10::DeviceType::CUDA).getNewGenerator(device);
  set(seed, offset);
}

GeneratorState::~GeneratorState() = default;

std::pair<uint64_t, uint64_t> GeneratorState::get() const {
  std::lock_guard<std::mutex> lock(state_->generator.mutex());
  return {state_->generator.current_seed(), state_->generator.get_offset()};
}

void GeneratorState::set(uint64_t seed, uint64_t offset) {
  std::lock_guard<std::mutex> lock(state_->generator.mutex());
  state_->generator.set_current_seed(seed);
  state_->generator.set_offset(offset);
}

at::Generator GeneratorState::draw() {
  return state_->generator;
}

}  // namespace inductor_npu::library
