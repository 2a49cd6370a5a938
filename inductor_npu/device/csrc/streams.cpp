// Streams as PyTorch names them: a device's default stream, two pools, and each thread's current stream.
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <mutex>
#include <optional>

#include "graph.h"
#include "handed_out.h"
#include "runtime.h"
#include "timeline.h"

namespace inductor_npu {
namespace {

// Ids: 0 is the default stream, then a pool of normal and a pool of high priority, then those that have an owner. Streams
// of a pool are handed out in turn, so that a program that makes streams without end does not make threads without end.
constexpr int kPoolSize = 32;
constexpr int kFirstOwned = 1 + 2 * kPoolSize;
constexpr int kMostOwned = 192;
constexpr int kStreamCount = kFirstOwned + kMostOwned;
constexpr int kHighPriority = -1;

struct DeviceStreams {
  std::array<std::atomic<driver::Stream*>, kStreamCount> native{};
  std::array<std::atomic<uint32_t>, 2> next{};
  std::bitset<kMostOwned> owned{};  // with `owning` held
};

std::array<DeviceStreams, kMaxDevices> devices;
std::mutex creating;
std::mutex owning;
thread_local std::array<c10::StreamId, kMaxDevices> current_ids{};

c10::Stream make_stream(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNpu, device), id);
}

int priority_of(c10::StreamId id) {
  return id > kPoolSize ? kHighPriority : 0;
}

driver::Stream* create(c10::DeviceIndex device, c10::StreamId id) {
  ensure_open();
  std::lock_guard<std::mutex> lock(creating);
  auto& slot = devices[device].native[id];
  if (slot.load() == nullptr) {
    slot.store(driver::create_stream(device, static_cast<int>(id), priority_of(id)));
  }
  return slot.load();
}

driver::Stream* native_of(c10::DeviceIndex device, c10::StreamId id) {
  driver::Stream* stream = devices[device].native[id].load(std::memory_order_acquire);
  // A forked child sees the parent's streams but not their threads: create() says so.
  return C10_LIKELY(stream != nullptr && is_open()) ? stream : create(device, id);
}

constexpr const char* kReadLater = "read results after the replay";

void synchronize_native(driver::Stream* stream) {
  refuse_in_capture(stream, "a synchronisation", kReadLater);
  driver::synchronize(stream);
  raise_failure(stream);
}

}  // namespace

c10::Stream default_stream(c10::DeviceIndex device) {
  return make_stream(resolve_device(device), 0);
}

c10::Stream current_stream(c10::DeviceIndex device) {
  device = resolve_device(device);
  return make_stream(device, current_ids[device]);
}

c10::Stream exchange_stream(c10::Stream stream) {
  native(stream);  // checks it
  c10::StreamId& id = current_ids[stream.device_index()];
  const c10::Stream before = make_stream(stream.device_index(), id);
  id = stream.id();
  return before;
}

c10::Stream stream_from_pool(c10::DeviceIndex device, int priority) {
  device = resolve_device(device);
  const int pool = priority < 0 ? 1 : 0;
  const uint32_t turn = devices[device].next[pool].fetch_add(1);
  const c10::Stream stream = make_stream(device, 1 + pool * kPoolSize + turn % kPoolSize);
  native(stream);
  return stream;
}

std::optional<c10::Stream> take_stream(c10::DeviceIndex device) {
  device = resolve_device(device);
  std::lock_guard<std::mutex> lock(owning);
  auto& owned = devices[device].owned;
  for (int i = 0; i < kMostOwned; ++i) {
    if (!owned[i]) {
      const c10::Stream stream = make_stream(device, kFirstOwned + i);
      native(stream);
      owned.set(i);
      return stream;
    }
  }
  return std::nullopt;
}

void give_back_stream(c10::Stream stream) noexcept {
  std::lock_guard<std::mutex> lock(owning);
  devices[stream.device_index()].owned.reset(stream.id() - kFirstOwned);
}

int stream_priority(c10::Stream stream) {
  return priority_of(stream.id());
}

driver::Stream* native(c10::Stream stream) {
  TORCH_CHECK(stream.device_type() == kNpu, "Expected a stream of device npu, got ", stream);
  check_device(stream.device_index());
  TORCH_CHECK(stream.id() >= 0 && stream.id() < kStreamCount, "There is no npu stream with id ", stream.id(),
              ": make streams with torch.npu.Stream or torch.Stream");
  return native_of(stream.device_index(), stream.id());
}

driver::Stream* native_from_handle(uint64_t handle) {
  if (handle == 0) {
    return native_of(current_device(), current_ids[current_device()]);
  }
  const auto* wanted = reinterpret_cast<driver::Stream*>(handle);
  // The usual case first: a launch goes to the current stream of the current device.
  const c10::DeviceIndex here = current_device();
  if (C10_LIKELY(devices[here].native[current_ids[here]].load(std::memory_order_acquire) == wanted)) {
    return native_of(here, current_ids[here]);
  }
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    for (c10::StreamId id = 0; id < kStreamCount; ++id) {
      if (devices[device].native[id].load(std::memory_order_acquire) == wanted) {
        return native_of(device, id);
      }
    }
  }
  TORCH_CHECK(false, "There is no npu stream with handle ", handle, ": pass the handle of torch.npu.current_stream()");
}

void raise_failure(driver::Stream* stream) {
  const std::string message = driver::take_error(stream);
  TORCH_CHECK(message.empty(), message);
}

void synchronize_stream(c10::Stream stream) {
  const timeline::Call call("npuStreamSynchronize");
  synchronize_native(native(stream));
}

void wait_for_all_streams(c10::DeviceIndex device) {
  for (auto& slot : devices[device].native) {
    if (driver::Stream* stream = slot.load(std::memory_order_acquire)) {
      driver::synchronize(stream);
    }
  }
}

void order_before_other_streams(c10::Stream stream) {
  driver::Event* event = nullptr;
  for (auto& slot : devices[stream.device_index()].native) {
    driver::Stream* other = slot.load(std::memory_order_acquire);
    if (other == nullptr || other == native(stream) || driver::capture_of(other) != 0) {
      continue;
    }
    if (event == nullptr) {
      event = driver::create_event(/*timing=*/false);
      driver::record(event, native(stream));
    }
    driver::block(event, other);
  }
  if (event != nullptr) {
    driver::destroy(event);
  }
}

void synchronize_device(c10::DeviceIndex device) {
  const timeline::Call call("npuDeviceSynchronize");
  ensure_open();
  device = resolve_device(device);
  // Other streams may capture: another thread's captures have nothing to do with what is waited for here.
  refuse_in_capture(native_of(device, current_ids[device]), "a synchronisation of the device", kReadLater);
  wait_for_all_streams(device);
  std::string first;  // the others, which may be the same that went from stream to stream, are taken with it
  for (auto& slot : devices[device].native) {
    if (driver::Stream* stream = slot.load(std::memory_order_acquire)) {
      const std::string failure = driver::take_error(stream);
      first = first.empty() ? failure : first;
    }
  }
  TORCH_CHECK(first.empty(), first);
}

void synchronize_stream_of(c10::DeviceIndex device) {
  driver::Stream* stream = native_of(device, current_ids[device]);
  const timeline::Call call(driver::query(stream) ? nullptr : "npuStreamSynchronize");
  synchronize_native(stream);
}

bool query_stream(c10::Stream stream) {
  refuse_in_capture(native(stream), "a query of whether a stream is done", kReadLater);
  return driver::query(native(stream));
}

bool query_device(c10::DeviceIndex device) {
  ensure_open();
  const auto& streams = devices[resolve_device(device)].native;
  return std::all_of(streams.begin(), streams.end(), [](const std::atomic<driver::Stream*>& slot) {
    const driver::Stream* stream = slot.load(std::memory_order_acquire);
    return stream == nullptr || driver::query(stream);
  });
}

void copy_async(c10::Stream stream, void* destination, const void* source, size_t bytes) {
  driver::copy(native(stream), destination, source, bytes);
  driver::note_written(destination, bytes);
}

}  // namespace inductor_npu
