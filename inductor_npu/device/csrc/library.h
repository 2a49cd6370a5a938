// The library that computes eager operators: PyTorch's own, for the device type whose tensors can be laid over memory of
// npu (fallback.h). A runtime has a header library_device.h, which says which one that is, and implements what is
// declared here.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <optional>
#include <utility>

#include "driver.h"
#include "library_device.h"

// Of library_device.h, in this namespace:
//   kDevice                                            the type of the library's tensors
//   kDense, kSparse, kCompressed, kQuantised, kNested  what they dispatch to
//   kKeepsLayouts                                      whether compiled code knows how the library lays out results
//                                                      of convolutions; else they are contiguous, as PyTorch says of
//                                                      devices from outside
//   kQueues                                            whether operators are queued on the current stream, as kernels
//                                                      are; else they run on the calling thread, after the stream
//   kIsTraced                                          whether PyTorch's profiler sees the work of the device by itself;
//                                                      else the runtime tells it (timeline.h)
//   kNotCaptured                                       operators that hurt the library when a graph captures them
namespace inductor_npu::library {

// The device whose tensors lie over the memory of npu `device`.
inline c10::Device device_for(c10::Device device) {
  return c10::Device(kDevice, kDevice == c10::DeviceType::CPU ? -1 : device.index());
}

// --- Memory ----------------------------------------------------------------------------------------------------------

// What the library's tensors are allocated by: its own allocator, except on a thread that says otherwise (AllocateOn),
// where it gives memory of npu that is labelled as the library's.
c10::Allocator* allocator();

// The npu that this thread's allocations of the library go to; none: its own memory.
inline thread_local std::optional<c10::Device> allocation_device;

// Where this thread's allocations of the library go while it lives.
class AllocateOn {
 public:
  explicit AllocateOn(std::optional<c10::Device> device) : previous_(std::exchange(allocation_device, device)) {}
  ~AllocateOn() { allocation_device = previous_; }
  AllocateOn(const AllocateOn&) = delete;
  AllocateOn& operator=(const AllocateOn&) = delete;

 private:
  const std::optional<c10::Device> previous_;
};

// --- Order -----------------------------------------------------------------------------------------------------------

// While it lives, operators of the library that this thread calls come after the work on the current stream of npu
// `device`, and before what is queued there afterwards. Raises failures of that work where it waits for it.
class InOrder {
 public:
  explicit InOrder(c10::Device device);
  ~InOrder();
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

// --- Random numbers --------------------------------------------------------------------------------------------------

// The state of a generator of npu: a seed, and an offset that each operator that draws moves on. Thread-safe.
class GeneratorState : public c10::intrusive_ptr_target {
 public:
  GeneratorState(c10::DeviceIndex device, uint64_t seed, uint64_t offset = 0);
  ~GeneratorState() override;

  std::pair<uint64_t, uint64_t> get() const;
  void set(uint64_t seed, uint64_t offset);
  // A generator of the library for one operator. The next one gets other numbers.
  at::Generator draw();

 private:
  friend class CapturedDraws;
  struct State;
  std::unique_ptr<State> state_;
};

// What a captured graph draws from a generator, where operators queue their work (kQueues): each replay draws what the
// generator would give by then, and moves it on.
class CapturedDraws {
 public:
  explicit CapturedDraws(c10::intrusive_ptr<GeneratorState> source);
  ~CapturedDraws();
  CapturedDraws(const CapturedDraws&) = delete;
  CapturedDraws& operator=(const CapturedDraws&) = delete;

  bool are_from(const GeneratorState& state) const { return source_.get() == &state; }
  // A generator of the library for one operator of the capture.
  at::Generator draw();
  // Says where the generator is to the replay that comes next on `stream`.
  void begin_replay(driver::Stream* stream);

 private:
  struct Drawn;
  const c10::intrusive_ptr<GeneratorState> source_;
  std::unique_ptr<Drawn> drawn_;
};

}  // namespace inductor_npu::library
