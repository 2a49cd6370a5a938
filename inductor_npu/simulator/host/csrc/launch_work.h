// A queued kernel launch. Its arguments lie right behind it, in the same allocation.
#pragma once

#include <memory>
#include <new>

#include "host_kernel.h"
#include "work_queue.h"

namespace inductor_npu {

class LaunchWork final : public Work {
 public:
  static std::unique_ptr<LaunchWork> make(const Launch& launch);
  static void operator delete(void* memory) { ::operator delete(memory); }

  void run() override;
  const char* name() const noexcept override { return kernel_->name.c_str(); }
  void describe(WorkRecord& record) const noexcept override;

  uint64_t* args() noexcept { return reinterpret_cast<uint64_t*>(this + 1); }

  const HostKernel* kernel_ = nullptr;
  int32_t grid_[3] = {1, 1, 1};
  int threads_ = 1;
  WorkCounters counters_;

 private:
  LaunchWork() = default;
  static void* operator new(size_t, void* memory) noexcept { return memory; }
};

}  // namespace inductor_npu
