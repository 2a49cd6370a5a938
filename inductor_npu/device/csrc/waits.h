// Around each wait of a driver that may block, so that a thread that holds Python's lock gives it up meanwhile.
#pragma once

namespace inductor_npu {

struct WaitHooks {
  void* (*enter)();
  void (*leave)(void* state);
};
// Set once, when loaded.
void set_wait_hooks(WaitHooks hooks) noexcept;

// A wait, while it lives.
class WaitScope {
 public:
  WaitScope();
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  void* state_;
};

}  // namespace inductor_npu
