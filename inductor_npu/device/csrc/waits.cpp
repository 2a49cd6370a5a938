#include "waits.h"

#include <atomic>

namespace inductor_npu {
namespace {

std::atomic<void* (*)()> wait_enter{nullptr};
std::atomic<void (*)(void*)> wait_leave{nullptr};

}  // namespace

void set_wait_hooks(WaitHooks hooks) noexcept {
  wait_leave.store(hooks.leave);
  wait_enter.store(hooks.enter);
}

WaitScope::WaitScope() : state_(wait_enter.load() ? wait_enter.load()() : nullptr) {}

WaitScope::~WaitScope() {
  if (state_ != nullptr) {
    wait_leave.load()(state_);
  }
}

}  // namespace inductor_npu
