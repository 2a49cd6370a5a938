// The CPU's operators on memory of the embedded NPU.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <mutex>

#include "handed_out.h"
#include "host_operators.h"
#include "library.h"
#include "memory_check.h"
#include "runtime.h"

namespace inductor_npu::library {
namespace {

// Of the offset, for an operator that draws: what a counter that makes four numbers at a time counts in.
constexpr uint64_t kStep = 4;

c10::Allocator* npu_allocator() {
  static c10::Allocator* const allocator = c10::GetAllocator(kNpu);
  return allocator;
}

// PyTorch's CPU allocator, except on a thread that runs an operator for an npu: there it gives npu memory labelled as
// the CPU's.
class RedirectingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (!allocation_device.has_value() || bytes == 0) {
      return host->allocate(bytes);
    }
    c10::DataPtr memory = npu_allocator()->allocate(bytes);
    // The operator writes it now, not in its turn on the stream. What other threads have queued since this one waited for
    // the stream may still use it, if they have freed it; all of that was queued before it became ours.
    driver::synchronize(native(current_stream()));
    memory.unsafe_set_device(c10::kCPU);
    memory_check::allocation_written(memory.get());  // the operator will
    return memory;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

 private:
  // Memory from raw_allocate (oneDNN's workspaces) may be of either kind.
  static void release(void* memory) { (is_npu_pointer(memory) ? npu_allocator() : host)->raw_deallocate(memory); }

  static inline c10::Allocator* const host = c10::GetCPUAllocator();
};

const bool redirected = [] {
  // Never destroyed: storages that outlive static destruction may still ask for it.
  c10::SetCPUAllocator(new RedirectingAllocator, /*priority=*/1);
  return true;
}();

// A CPU generator for the numbers that belong to a seed and an offset. The CPU's engine takes a seed of 32 bits, under
// which offsets would soon meet; the counter-based one fills its whole state.
at::Generator generator_at(uint64_t seed, uint64_t offset) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  at::mt19937_data_pod words{};
  words.seed_ = seed;
  words.seeded_ = true;
  words.left_ = 1;  // as after seeding: the first number makes the next 624
  at::Philox4_32 source(seed, /*subsequence=*/offset);
  std::generate(words.state_.begin(), words.state_.end(), [&source] { return source(); });
  at::mt19937 engine;
  engine.set_data(words);
  at::check_generator<at::CPUGeneratorImpl>(generator)->set_engine(engine);
  return generator;
}

}  // namespace

c10::Allocator* allocator() {
  return c10::GetCPUAllocator();
}

// An operator runs for a while: what it reads must not move meanwhile.
struct InOrder::Guard {
  const ResultsStay stay;
};

InOrder::InOrder(c10::Device device) : guard_(std::make_unique<Guard>()) {
  synchronize_stream_of(device.index());
  note_host_operator();
}

InOrder::~InOrder() = default;

struct GeneratorState::State {
  mutable std::mutex mutex;
  uint64_t seed, offset;
};

GeneratorState::GeneratorState(c10::DeviceIndex /*device*/, uint64_t seed, uint64_t offset)
    : state_(new State{{}, seed, offset}) {}

GeneratorState::~GeneratorState() = default;

std::pair<uint64_t, uint64_t> GeneratorState::get() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return {state_->seed, state_->offset};
}

void GeneratorState::set(uint64_t seed, uint64_t offset) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->seed = seed;
  state_->offset = offset;
}

at::Generator GeneratorState::draw() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  at::Generator generator = generator_at(state_->seed, state_->offset);
  state_->offset += kStep;
  return generator;
}

}  // namespace inductor_npu::library
