#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <array>
#include <cstring>
#include <mutex>
#include <vector>

#include "runtime.h"

namespace inductor_npu {
namespace {

// What generators that share a state (graphsafe_*) have in common. `offset` counts what a counter-based generator
// (philox, as in functional random numbers of compiled graphs) has drawn from the seed; the CPU engine does not use it.
struct GeneratorState : c10::intrusive_ptr_target {
  explicit GeneratorState(at::Generator cpu) : cpu(std::move(cpu)) {}
  at::Generator cpu;
  uint64_t offset = 0;
};

// Not through the dispatcher: a state is real, also where fake tensors are traced.
at::Tensor empty_bytes(int64_t size) {
  return at::detail::empty_cpu({size}, at::kByte);
}

struct NpuGeneratorImpl final : c10::GeneratorImpl {
  NpuGeneratorImpl(c10::DeviceIndex device, c10::intrusive_ptr<GeneratorState> state)
      : c10::GeneratorImpl(c10::Device(kNpu, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        state_(std::move(state)) {}

  static c10::DeviceType device_type() { return kNpu; }

  void set_current_seed(uint64_t seed) override {
    wait_for_draws();
    state_->cpu.set_current_seed(seed);
    state_->offset = 0;
  }
  uint64_t current_seed() const override { return state_->cpu.current_seed(); }
  uint64_t seed() override {
    wait_for_draws();
    state_->offset = 0;
    return state_->cpu.seed();
  }
  void set_offset(uint64_t offset) override { state_->offset = offset; }
  uint64_t get_offset() const override { return state_->offset; }

  // A CPU uint8 tensor: the CPU generator's state, then the offset.
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    wait_for_draws();
    const at::Tensor cpu = state_->cpu.get_state();
    at::Tensor state = empty_bytes(cpu.numel() + static_cast<int64_t>(sizeof(uint64_t)));
    auto* bytes = state.mutable_data_ptr<uint8_t>();
    std::memcpy(bytes, cpu.const_data_ptr<uint8_t>(), cpu.numel());
    std::memcpy(bytes + cpu.numel(), &state_->offset, sizeof(uint64_t));
    return state.getIntrusivePtr();
  }

  void set_state(const c10::TensorImpl& new_state) override {
    const int64_t cpu_size = state_->cpu.get_state().numel();
    const int64_t size = cpu_size + static_cast<int64_t>(sizeof(uint64_t));
    TORCH_CHECK(new_state.device().is_cpu() && new_state.dtype() == caffe2::TypeMeta::Make<uint8_t>() &&
                    new_state.is_contiguous(),
                "RNG state must be a contiguous torch.ByteTensor on the CPU, as npu's get_state returns it");
    TORCH_CHECK(new_state.numel() == size, "RNG state of npu has ", size, " bytes, got ", new_state.numel());
    const auto* bytes = static_cast<const uint8_t*>(new_state.data());
    wait_for_draws();
    at::Tensor cpu = empty_bytes(cpu_size);
    std::memcpy(cpu.mutable_data_ptr<uint8_t>(), bytes, cpu_size);
    state_->cpu.set_state(cpu);
    std::memcpy(&state_->offset, bytes + cpu_size, sizeof(uint64_t));
  }

  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<NpuGeneratorImpl>(device_.index(), state_);
  }
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override {
    const auto npu = c10::dynamic_intrusive_pointer_cast<NpuGeneratorImpl>(other);
    TORCH_CHECK(npu, "graphsafe_set_state expects a generator of device npu");
    state_ = npu->state_;
  }

  const at::Generator& cpu() const { return state_->cpu; }

 private:
  // Replays of captured graphs draw when their turn comes: before whatever the program does to the state afterwards.
  void wait_for_draws() const {
    if (is_open()) {
      wait_for_all_streams(device_.index());
    }
  }

  NpuGeneratorImpl* clone_impl() const override {
    wait_for_draws();
    auto state = c10::make_intrusive<GeneratorState>(state_->cpu.clone());
    state->offset = state_->offset;
    return new NpuGeneratorImpl(device_.index(), std::move(state));
  }

  c10::intrusive_ptr<GeneratorState> state_;
};

}  // namespace

at::Generator new_generator(c10::DeviceIndex device) {
  auto state = c10::make_intrusive<GeneratorState>(at::detail::createCPUGenerator(c10::default_rng_seed_val));
  return at::make_generator<NpuGeneratorImpl>(resolve_device(device), std::move(state));
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static std::array<std::once_flag, kMaxDevices> made;
  static auto* generators =
      new std::vector<at::Generator>(kMaxDevices);  // never destroyed: Python may hold one until the end
  device = resolve_device(device);
  std::call_once(made[device], [&] {
    (*generators)[device] = new_generator(device);
    (*generators)[device].seed();
  });
  return (*generators)[device];
}

at::Generator cpu_twin(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == kNpu, "Expected a generator of device npu, got one of ", generator.device());
  return at::check_generator<NpuGeneratorImpl>(generator)->cpu();
}

}  // namespace inductor_npu
