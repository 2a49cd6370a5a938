// Backward passes at Python's end.
//
// PyTorch's thread for a device lets go of a backward pass after the caller of backward() has gone on, and takes
// Python's lock to do so, for a pass keeps the caller's contextvars (torch/autograd/graph.py, _engine_run_backward).
// CPython ends a thread that wants its lock while the interpreter ends, here within a destructor: the process aborts
// with "terminate called without an active exception" although all of its work is done. A training script whose last
// statement is backward() did so in some of a hundred runs, and nearly always if a pass was still running.
//
// A thread of PyTorch does the passes of its device one after another: once it has done another one, it has let go of
// those before it. That other pass keeps nothing of Python if it begins in a thread that Python does not know.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdio>
#include <future>
#include <utility>

#include "host_thread.h"
#include "runtime.h"

namespace inductor_npu {
namespace {

void do_empty_pass(c10::DeviceIndex device) {
  const auto options = at::TensorOptions().device(c10::Device(kNpu, device));
  const at::Tensor leaf = at::empty({0}, options).set_requires_grad(true);
  torch::autograd::grad({leaf.view_as(leaf)}, {leaf}, {at::empty({0}, options)});
}

}  // namespace

bool finish_backward_passes(std::chrono::seconds limit) {
  std::packaged_task<void()> empty_passes([] {
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      do_empty_pass(device);
    }
  });
  std::future<void> finished = empty_passes.get_future();
  start_host_thread("npu-backward", std::move(empty_passes));
  if (finished.wait_for(limit) != std::future_status::ready) {
    return false;
  }
  finished.get();
  return true;
}

}  // namespace inductor_npu
