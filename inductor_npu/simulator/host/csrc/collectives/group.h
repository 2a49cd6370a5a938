// The work of one process group: calls of gloo's, in the order in which the program made them, in turn with the streams.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime.h"

namespace inductor_npu::collectives {

// One call of gloo's. `start` begins it and gives what is to be waited for; `finish` brings its result to where it
// belongs.
struct Call {
  std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend& gloo)> start;
  std::function<void()> finish{};
};

// Memory that a request reads, or writes.
struct Range {
  const char* begin;
  const char* end;
  bool written;
};

// What the program asked for: one collective, or several that it put together.
struct Request {
  c10d::OpType op;
  std::string name;  // as torch.distributed calls it
  std::vector<Call> calls{};
  std::vector<at::Tensor> outputs{};
  std::vector<Range> memory{};
  // Send or receive: every call begins when its turn comes on the caller's stream, before it is waited for, so that no
  // rank waits for one that waits for it.
  bool between_two = false;
};

class CollectiveWork;

// Thread-safe, as far as ranks can agree on an order.
class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(c10::intrusive_ptr<c10d::Backend> gloo, std::string name, std::chrono::milliseconds timeout);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  c10d::Backend& gloo() { return *gloo_; }

  // What stands for the next request; its calls may still be to come.
  c10::intrusive_ptr<CollectiveWork> announce(c10d::OpType op, c10::DeviceIndex device);
  // Queues the request behind what the current stream of `device` has queued so far.
  void submit(Request request, c10::DeviceIndex device, CollectiveWork& work);

  // Makes everything that is queued, and everything that will be, fail; what gloo is at is left to its time-out.
  void fail(const std::string& reason);
  // Raises if an earlier collective has failed.
  void check_usable();
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  // For messages.
  void set_name(const std::string& name);

  // Waits until what is queued is done. False if that is not so by `deadline`.
  bool finish(std::chrono::steady_clock::time_point deadline);

 private:
  struct Flight;

  // Begins requests that are queued behind `current`, so that gloo works on several, as it does for tensors of the CPU.
  void run_ahead(const Flight& current);
  c10::Stream own_stream(c10::DeviceIndex device);
  c10::Stream stream_of_transfer(c10::DeviceIndex device);
  const c10::intrusive_ptr<c10d::Backend> gloo_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<uint64_t> count_{0};

  std::mutex mutex_;  // of what follows
  std::string name_;
  std::string failure_;
  std::optional<c10::Stream> own_stream_;
  std::vector<c10::Stream> of_transfers_;
  std::deque<std::shared_ptr<Flight>> queued_;  // on the own stream, but in captured graphs
};

// Waits until the collectives of all groups are done. False if that took longer than `limit`.
bool finish_all(std::chrono::milliseconds limit);

}  // namespace inductor_npu::collectives
