#include "collectives/work.h"

#include <ATen/core/List.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <thread>

namespace inductor_npu::collectives {

CollectiveWork::CollectiveWork(int rank, c10d::OpType op, uint64_t number, c10::DeviceIndex device)
    : Work(rank, op), number_(number), device_(device), done_(driver::create_event(/*timing=*/false)) {}

CollectiveWork::~CollectiveWork() {
  driver::destroy(done_);
}

void CollectiveWork::add_outputs(const std::vector<at::Tensor>& outputs) {
  outputs_.insert(outputs_.end(), outputs.begin(), outputs.end());
}

void CollectiveWork::queued_on(c10::Stream stream) {
  driver::record(done_, native(stream));
  const c10::Device device(kNpu, device_);
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                     std::vector<c10::Device>{device});
  const c10::OptionalDeviceGuard device_guard(device);
  const c10::StreamGuard stream_guard(stream);
  future_->markCompleted(c10::IValue(outputs_));
}

bool CollectiveWork::isCompleted() {
  return future_ != nullptr && driver::query(done_);
}

bool CollectiveWork::isSuccess() const {
  return future_ != nullptr && driver::query(done_) && error() == nullptr;
}

std::exception_ptr CollectiveWork::exception() const {
  return error();
}

std::exception_ptr CollectiveWork::error() const {
  std::lock_guard<std::mutex> lock(outcome_->mutex);
  return outcome_->error;
}

void CollectiveWork::check_queued() const {
  TORCH_CHECK(future_ != nullptr, "a collective that is part of a coalesced one begins at the end of the block: wait for "
              "what the block returns");
}

int CollectiveWork::sourceRank() const {
  check_queued();
  driver::synchronize(done_);
  std::lock_guard<std::mutex> lock(outcome_->mutex);
  return outcome_->source_rank;
}

void CollectiveWork::synchronize() {
  check_queued();
  if (const std::exception_ptr failure = error()) {
    std::rethrow_exception(failure);
  }
  driver::block(done_, native(current_stream(device_)));  // which then fails if the collective does
}

bool CollectiveWork::wait(std::chrono::milliseconds timeout) {
  check_queued();
  if (opType_ == c10d::OpType::BARRIER || opType_ == c10d::OpType::RECVANYSOURCE) {
    driver::synchronize(done_);
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (timeout != kNoTimeout && !driver::query(done_)) {
    TORCH_CHECK_WITH(DistBackendError, std::chrono::steady_clock::now() < deadline, c10d::opTypeToString(opType_),
                     " (call ", number_, " of its process group) on rank ", rank_, " was not done after ",
                     timeout.count(), " ms");
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  synchronize();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> CollectiveWork::getFuture() {
  check_queued();
  return future_;
}

}  // namespace inductor_npu::collectives
