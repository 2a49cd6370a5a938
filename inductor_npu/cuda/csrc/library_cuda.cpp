// PyTorch's CUDA operators on memory of npu.
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <mutex>

#include "cuda_errors.h"
#include "handed_out.h"
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
    at::globalContext().lazyInitDevice(kNpu);  // else no pointer is pinned for it: CUDA's allocator is asked for those
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
  const ResultsStay stay;
  c10::cuda::CUDAStreamGuard stream;
};

InOrder::InOrder(c10::Device device) {
  prepare();
  guard_ = std::make_unique<Guard>(device);
}

InOrder::~InOrder() = default;

namespace {

// PyTorch makes no generator while the current stream captures. Nothing is queued on the one that is current meanwhile.
c10::cuda::CUDAStreamGuard beside_captures(c10::DeviceIndex device) {
  return c10::cuda::CUDAStreamGuard(c10::cuda::getDefaultCUDAStream(device));
}

}  // namespace

// The state is that of a generator of CUDA, which has the same: a seed and an offset, moved on by what operators draw.
struct GeneratorState::State {
  at::Generator generator;
};

GeneratorState::GeneratorState(c10::DeviceIndex device, uint64_t seed, uint64_t offset) : state_(new State) {
  prepare();
  const c10::cuda::CUDAStreamGuard beside = beside_captures(device);
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

// Kernels that are captured read seed and offset from memory, and add where in the capture they draw.
struct CapturedDraws::Drawn {
  c10::intrusive_ptr<at::CUDAGeneratorState> state;
  at::Generator generator;
};

CapturedDraws::CapturedDraws(c10::intrusive_ptr<GeneratorState> source) : source_(std::move(source)), drawn_(new Drawn) {
  const AllocateOn own(std::nullopt);
  const c10::Device device = source_->state_->generator.device();
  const c10::cuda::CUDAStreamGuard beside = beside_captures(device.index());
  at::globalContext().defaultGenerator(device);  // operators make it, though they are given another
  drawn_->state = c10::make_intrusive<at::CUDAGeneratorState>();
  drawn_->state->seed_extragraph_ = at::empty({1}, at::TensorOptions(device).dtype(at::kLong));
  drawn_->state->offset_extragraph_ = at::empty({1}, at::TensorOptions(device).dtype(at::kLong));
  drawn_->state->capturing_ = true;
  drawn_->generator = at::make_generator<at::CUDAGeneratorImpl>(device.index(), drawn_->state);
}

CapturedDraws::~CapturedDraws() = default;

at::Generator CapturedDraws::draw() {
  return drawn_->generator;
}

namespace {

// Without memory of the host that would have to stay as it is until the stream comes there.
void write(const at::TensorBase& number, uint64_t value, CUstream stream) {
  const auto address = reinterpret_cast<CUdeviceptr>(number.data_ptr());
  check_cuda(cuMemsetD32Async(address, static_cast<uint32_t>(value), 1, stream), "writing where a generator is");
  check_cuda(cuMemsetD32Async(address + sizeof(uint32_t), static_cast<uint32_t>(value >> 32), 1, stream),
             "writing where a generator is");
}

}  // namespace

void CapturedDraws::begin_replay(driver::Stream* stream) {
  uint64_t seed = 0, offset = 0;
  {
    at::Generator& source = source_->state_->generator;
    std::lock_guard<std::mutex> lock(source.mutex());
    seed = source.current_seed();
    offset = source.get_offset();
    source.set_offset(offset + drawn_->state->offset_intragraph_);
  }
  const OnGpu here(drawn_->generator.device().index());
  write(drawn_->state->seed_extragraph_, seed, driver::native_stream(stream));
  write(drawn_->state->offset_extragraph_, offset, driver::native_stream(stream));
}

}  // namespace inductor_npu::library
