// A stand-in for CANN's runtime, whose devices are the host: what its parts share.
//
// Each stream is a queue with a thread of its own, which waits a little before each of its tasks: whoever forgets to
// wait reads old values. Device memory is filled with ones when it is fresh (NaN as a floating-point number, -1 as an
// integer), and copies that leave their block are errors. Processes are ranks of HCCL's communicators: communicator.h.
#pragma once

#include <condition_variable>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace standin {

// CANN's own numbers, as acl_base_rt.h has them.
constexpr int kSuccess = 0;
constexpr int kInvalidParameter = 107000;
constexpr int kInvalidDevice = 107001;
constexpr int kNoContext = 107002;
constexpr int kOutOfMemory = 207001;
constexpr int kNotImplemented = 207000;
constexpr int kStreamCaptured = 107024;
constexpr int kTaskTimeout = 107020;
constexpr int kStreamSyncTimeout = 507046;

constexpr int kMostDevices = 16;

// Says `message` on standard error, keeps it for aclGetRecentErrMsg, returns `error`.
int fail(int error, const char* message, ...) __attribute__((format(printf, 2, 3)));

// What is called in the place of a function of CANN that the stand-in does not have.
long missing(const char* name);

int device_count();
// The device of this thread; -1 before it has chosen one.
int current_device();

struct Chip {
  const char* name;
  int cube_cores;
  int vector_cores;
};
const Chip& chip();

// -- memory ----------------------------------------------------------------------------------------------------------
// Whether [address, address + bytes) lies within one live block of device memory.
bool is_device(const void* address, size_t bytes);
// Whether `address` is in memory that aclrtMallocHost gave.
bool is_pinned(const void* address);
// Why a copy would leave a block of device memory; empty if it does not.
std::string overrun(const void* to, size_t room, const void* from, size_t bytes);

// -- graphs ----------------------------------------------------------------------------------------------------------
struct Graph;
class Stream;
void append(Graph& graph, std::function<void()> task);
// From here on `stream` captures into `graph`, after what was queued before.
void join(const std::shared_ptr<Graph>& graph, Stream& stream);
// The error of an operation that cannot be captured; there will be no graph.
int refuse(Graph& graph, const char* what);

// -- streams ---------------------------------------------------------------------------------------------------------
// Why a task failed; `error` is kSuccess where none did.
struct Trouble {
  int error = kSuccess;
  std::string why;
};

class Stream {
 public:
  explicit Stream(int device);
  ~Stream();  // after all tasks
  void push(std::function<void()> task);
  void wait();
  // Whether all tasks were done within `milliseconds`; less than zero for no limit.
  bool wait(int milliseconds);
  bool idle();
  // The first trouble of its tasks, for good. Those behind a task that failed are run: CANN's default, too.
  Trouble trouble();
  // The graph that it captures into; null for none.
  std::shared_ptr<Graph> graph();
  void capture_into(std::shared_ptr<Graph> graph);
  const int device;
  const int id;

 private:
  friend void task_failed(int error, std::string why);
  void run();
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::shared_ptr<Graph> graph_;
  Trouble trouble_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;  // last: it uses all others
};

// Called by a task: it failed. Who waits for its stream, or for an event that was recorded behind it, hears of it.
void task_failed(int error, std::string why);

// The stream behind a handle; the device's default one for a null handle.
Stream& stream_of(void* handle);
// Waits for every stream of `device`; the first trouble that one of them has.
Trouble wait_for_device(int device);

// Milliseconds of a clock that never goes backwards.
double now();

}  // namespace standin
