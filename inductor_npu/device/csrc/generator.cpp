#include "generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph_operators.h"
#include "library.h"
#include "runtime.h"

namespace inductor_npu {
namespace {

using library::GeneratorState;  // what generators that share a state (graphsafe_*) have in common

constexpr int64_t kStateBytes = 2 * sizeof(uint64_t);

// Not through the dispatcher: a state is real, also where fake tensors are traced.
at::Tensor empty_bytes(int64_t size) {
  return at::detail::empty_cpu({size}, at::kByte);
}

// The seed, then the offset: as generators of torch.cuda have it, and as DTensor expects it.
at::Tensor read(const GeneratorState& state) {
  at::Tensor bytes = empty_bytes(kStateBytes);
  auto* data = bytes.mutable_data_ptr<uint8_t>();
  const auto [seed, offset] = state.get();
  std::memcpy(data, &seed, sizeof(uint64_t));
  std::memcpy(data + sizeof(uint64_t), &offset, sizeof(uint64_t));
  return bytes;
}

void write(GeneratorState& state, const at::Tensor& bytes) {
  const auto* data = bytes.const_data_ptr<uint8_t>();
  uint64_t seed = 0, offset = 0;
  std::memcpy(&seed, data, sizeof(uint64_t));
  std::memcpy(&offset, data + sizeof(uint64_t), sizeof(uint64_t));
  state.set(seed, offset);
}

// The state at one point of a captured graph. Each replay that comes there sets it.
using StateOfReplay = std::shared_ptr<at::Tensor>;

// The states that programs asked for in captures. What they get is a state's bytes with a mark in place of the offset,
// which no program comes to, and a number in place of the seed.
class StatesOfReplays {
 public:
  static StatesOfReplays& instance() {
    static auto* states = new StatesOfReplays();  // never destroyed: graphs may end late
    return *states;
  }
  void name(const StateOfReplay& state, at::Tensor& bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(states_, [](const auto& entry) { return entry.second.expired(); });
    states_[++count_] = state;
    bytes.zero_();
    std::memcpy(bytes.mutable_data_ptr<uint8_t>(), &count_, sizeof(uint64_t));
    std::memcpy(bytes.mutable_data_ptr<uint8_t>() + sizeof(uint64_t), &kMark, sizeof(uint64_t));
  }
  static bool is_named(const at::Tensor& bytes) {
    return std::memcmp(bytes.const_data_ptr<uint8_t>() + sizeof(uint64_t), &kMark, sizeof(uint64_t)) == 0;
  }
  StateOfReplay find(const at::Tensor& bytes) {
    uint64_t number = 0;
    std::memcpy(&number, bytes.const_data_ptr<uint8_t>(), sizeof(uint64_t));
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = states_.find(number);
    StateOfReplay state = found != states_.end() ? found->second.lock() : nullptr;
    TORCH_CHECK(state != nullptr, "this RNG state was asked for in the capture of a graph that is gone");
    return state;
  }

 private:
  static constexpr uint64_t kMark = 0x6870617267757036;

  std::mutex mutex_;
  uint64_t count_ = 0;
  std::unordered_map<uint64_t, std::weak_ptr<at::Tensor>> states_;
};

struct NpuGeneratorImpl final : c10::GeneratorImpl {
  NpuGeneratorImpl(c10::DeviceIndex device, c10::intrusive_ptr<GeneratorState> state)
      : c10::GeneratorImpl(c10::Device(kNpu, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        state_(std::move(state)) {}

  static c10::DeviceType device_type() { return kNpu; }

  void set_current_seed(uint64_t seed) override {
    if (CapturedGraph* graph = capturing()) {
      record(*graph, "seed of random numbers", [seed](GeneratorState& state) { state.set(seed, 0); });
      return;
    }
    wait_for_draws();
    state_->set(seed, 0);
  }
  uint64_t current_seed() const override { return state_->get().first; }
  uint64_t seed() override {
    if (is_open()) {
      refuse_in_capture(native(current_stream(device_.index())), "a new random seed",
                        "seed before the capture, or with a given number: manual_seed");
    }
    wait_for_draws();
    seed_at_random();
    return state_->get().first;
  }
  void seed_at_random() { state_->set(c10::detail::getNonDeterministicRandom(), 0); }
  void set_offset(uint64_t offset) override { state_->set(state_->get().first, offset); }
  uint64_t get_offset() const override { return state_->get().second; }

  // A CPU uint8 tensor. In a capture it stands for the state that a replay has at this point.
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    if (CapturedGraph* graph = capturing()) {
      auto there = std::make_shared<at::Tensor>();
      record(*graph, "state of random numbers", [there](GeneratorState& state) { *there = read(state); });
      at::Tensor named = empty_bytes(kStateBytes);
      StatesOfReplays::instance().name(there, named);
      return named.getIntrusivePtr();
    }
    wait_for_draws();
    return read(*state_).getIntrusivePtr();
  }

  void set_state(const c10::TensorImpl& new_state) override {
    TORCH_CHECK(new_state.device().is_cpu() && new_state.dtype() == caffe2::TypeMeta::Make<uint8_t>() &&
                    new_state.is_contiguous(),
                "RNG state must be a contiguous torch.ByteTensor on the CPU, as npu's get_state returns it");
    TORCH_CHECK(new_state.numel() == kStateBytes, "RNG state of npu has ", kStateBytes, " bytes, a seed and an offset; "
                "got ", new_state.numel());
    at::Tensor bytes = empty_bytes(new_state.numel());
    std::memcpy(bytes.mutable_data_ptr<uint8_t>(), new_state.data(), new_state.numel());
    const bool is_of_replay = StatesOfReplays::is_named(bytes);
    if (CapturedGraph* graph = capturing()) {
      const StateOfReplay there =
          is_of_replay ? StatesOfReplays::instance().find(bytes) : std::make_shared<at::Tensor>(bytes);
      record(*graph, "set state of random numbers", [there](GeneratorState& state) {
        TORCH_CHECK(there->defined(), "the graph in whose capture this RNG state was asked for has not been replayed");
        write(state, *there);
      });
      return;
    }
    TORCH_CHECK(!is_of_replay, "this RNG state was asked for in the capture of a graph: it has a value in replays only. "
                "Ask for the state outside of the capture");
    wait_for_draws();
    write(*state_, bytes);
  }

  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<NpuGeneratorImpl>(device_.index(), state_);
  }
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override {
    const auto npu = c10::dynamic_intrusive_pointer_cast<NpuGeneratorImpl>(other);
    TORCH_CHECK(npu, "graphsafe_set_state expects a generator of device npu");
    state_ = npu->state_;
  }

  at::Generator draw() const {
    if constexpr (library::kQueues) {
      if (CapturedGraph* graph = capturing()) {
        return graph->draw(state_);
      }
    }
    return state_->draw();
  }

 private:
  // The graph that the current stream of the generator's device captures into; null if none.
  CapturedGraph* capturing() const {
    return is_open() ? capturing_graph(native(current_stream(device_.index()))) : nullptr;
  }
  // Has each replay of `graph` do `change` to the state that is this generator's now.
  void record(CapturedGraph& graph, std::string what, std::function<void(GeneratorState&)> change) const {
    const c10::DeviceGuard guard(device_);
    if constexpr (library::kQueues) {
      refuse_in_capture(native(current_stream()), what, "replays do not come back to the host; do it before the capture");
      return;
    }
    capture_call(graph, std::move(what), {}, [state = state_, change = std::move(change)](const auto& /*tensors*/) { change(*state); });
  }

  // Replays of captured graphs draw when their turn comes: before whatever the program does to the state afterwards.
  void wait_for_draws() const {
    if (is_open()) {
      wait_for_all_streams(device_.index());
    }
  }

  NpuGeneratorImpl* clone_impl() const override {
    wait_for_draws();
    const auto [seed, offset] = state_->get();
    return new NpuGeneratorImpl(device_.index(), c10::make_intrusive<GeneratorState>(device_.index(), seed, offset));
  }

  c10::intrusive_ptr<GeneratorState> state_;
};

thread_local const at::Generator* drawn_from = nullptr;  // in place of the default generator of its device

}  // namespace

at::Generator new_generator(c10::DeviceIndex device) {
  device = resolve_device(device);
  return at::make_generator<NpuGeneratorImpl>(
      device, c10::make_intrusive<GeneratorState>(device, c10::default_rng_seed_val));
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static std::array<std::once_flag, kMaxDevices> made;
  static auto* generators =
      new std::vector<at::Generator>(kMaxDevices);  // never destroyed: Python may hold one until the end
  device = resolve_device(device);
  std::call_once(made[device], [&] {
    (*generators)[device] = new_generator(device);
    at::check_generator<NpuGeneratorImpl>((*generators)[device])->seed_at_random();
  });
  return (*generators)[device];
}

at::Generator draw_from(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == kNpu, "Expected a generator of device npu, got one of ", generator.device());
  const bool is_replaced = drawn_from != nullptr && drawn_from->device() == generator.device() &&
                           generator == default_generator(generator.device().index());
  return at::check_generator<NpuGeneratorImpl>(is_replaced ? *drawn_from : generator)->draw();
}

DrawsFrom::DrawsFrom(const at::Generator& source)
    : previous_(std::exchange(drawn_from, source.defined() ? &source : drawn_from)) {}

DrawsFrom::~DrawsFrom() {
  drawn_from = previous_;
}

}  // namespace inductor_npu
