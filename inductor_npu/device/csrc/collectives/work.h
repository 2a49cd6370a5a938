// What a collective's caller gets: waiting makes the current stream wait, as with other accelerators.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime.h"

namespace inductor_npu::collectives {

// How a collective ended, told by the thread that ran it.
struct Outcome {
  std::mutex mutex;
  std::exception_ptr error;
  int source_rank = -1;  // of what was received from any rank
};

class CollectiveWork final : public c10d::Work {
 public:
  CollectiveWork(int rank, c10d::OpType op, uint64_t number, c10::DeviceIndex device);
  ~CollectiveWork() override;

  const std::shared_ptr<Outcome>& outcome() const { return outcome_; }
  void add_outputs(const std::vector<at::Tensor>& outputs);
  // What is queued on `stream` so far is the work. To be called once.
  void queued_on(c10::Stream stream);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  // The current stream waits from here on.
  void synchronize() override;
  // The same, but the caller waits, too, for a barrier, and for the rank that a receive from any rank is from; with a
  // time-out for every result, and an error says if it does not come.
  bool wait(std::chrono::milliseconds timeout) override;
  // Complete once queued: its value is ordered by streams.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return number_; }

 private:
  std::exception_ptr error() const;
  void check_queued() const;

  const uint64_t number_;
  const c10::DeviceIndex device_;
  const std::shared_ptr<Outcome> outcome_ = std::make_shared<Outcome>();
  std::vector<at::Tensor> outputs_;
  driver::Event* const done_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace inductor_npu::collectives
