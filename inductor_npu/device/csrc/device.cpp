// Devices: configuration, the opening of the device in this process, fork, the current device.
#include <pthread.h>

#include <c10/util/Exception.h>

#include <atomic>
#include <mutex>

#include "runtime.h"

namespace inductor_npu {
namespace {

enum class State : int { Closed, Open, BadFork };

std::atomic<State> state{State::Closed};
std::mutex opening;
thread_local c10::DeviceIndex current = 0;

Configuration& mutable_configuration() {
  static auto* instance = new Configuration();  // never destroyed: daemon threads may outlive static objects
  return *instance;
}

// Worker threads do not exist in a forked child, and locks may be held by threads that are gone: nothing works there
// any more.
void mark_child() {
  if (state.load() == State::Open) {
    state.store(State::BadFork);
  }
}

void open_device() {
  TORCH_CHECK(state.load() != State::BadFork,
              "Cannot use device npu in a forked subprocess, because the parent process used it before the fork. "
              "To use npu with multiprocessing, use multiprocessing start method 'spawn' "
              "(torch.multiprocessing.set_start_method(\"spawn\")), or use the device in the children only");
  TORCH_CHECK(configuration().device_count > 0,
              "Device npu is not configured yet: it is opened by torch.npu.init(), which PyTorch calls at the first "
              "use of the device");
  std::lock_guard<std::mutex> lock(opening);
  if (state.load() == State::Closed) {
    static const int registered = pthread_atfork(nullptr, nullptr, mark_child);
    TORCH_CHECK(registered == 0, "Cannot open device npu: pthread_atfork failed with error ", registered);
    driver::open(configuration().device_count);
    state.store(State::Open);
  }
}

}  // namespace

void configure(const Configuration& configuration) {
  TORCH_CHECK(!is_open(), "Device npu is already in use: it can be configured only before its first use");
  TORCH_CHECK(configuration.device_count >= 1 && configuration.device_count <= kMaxDevices,
              "There must be 1 to ", kMaxDevices, " devices npu, got ", configuration.device_count, ". ",
              configuration.more_devices);
  TORCH_CHECK(configuration.memory_bytes > 0, "The memory of device npu must be positive. ", configuration.more_memory);
  TORCH_CHECK(configuration.vector_cores > 0 && configuration.max_grid > 0, "The NPU target ", configuration.target,
              " must have at least one vector core and a positive grid limit");
  mutable_configuration() = configuration;
}

const Configuration& configuration() noexcept {
  return mutable_configuration();
}

void ensure_open() {
  if (C10_UNLIKELY(state.load(std::memory_order_acquire) != State::Open)) {
    open_device();
  }
}

bool is_open() noexcept {
  return state.load(std::memory_order_acquire) == State::Open;
}

bool is_in_bad_fork() noexcept {
  return state.load(std::memory_order_acquire) == State::BadFork;
}

c10::DeviceIndex device_count() noexcept {
  return static_cast<c10::DeviceIndex>(configuration().device_count);
}

c10::DeviceIndex current_device() noexcept {
  return current;
}

void check_device(int device) {
  const int count = device_count();
  if (C10_LIKELY(device >= 0 && device < count)) {
    return;
  }
  ensure_open();
  TORCH_CHECK(false, "npu device index ", device, " is out of range: ",
              count == 1
                  ? std::string("there is one npu device, index 0")
                  : "there are " + std::to_string(count) + " npu devices, indices 0 to " + std::to_string(count - 1),
              ". ", configuration().more_devices);
}

c10::DeviceIndex resolve_device(c10::DeviceIndex device) {
  if (device == -1) {
    return current;
  }
  check_device(device);
  return device;
}

void set_device(c10::DeviceIndex device) {
  check_device(device);
  current = device;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex device) {
  const c10::DeviceIndex before = current;
  set_device(device);
  return before;
}

}  // namespace inductor_npu
