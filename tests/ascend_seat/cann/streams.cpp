// Streams, and events between them.
#include <cstdlib>
#include <set>

#include "acl/acl.h"
#include "standin.h"

namespace standin {
namespace {

// Every stream that is alive; never destroyed, as the process may end while streams run.
struct Streams {
  std::mutex lock;
  std::set<Stream*> alive;
  Stream* defaults[kMostDevices] = {};
  int next_id = 0;
};
Streams& streams() {
  static Streams* all = new Streams;
  return *all;
}

int next_id() {
  std::lock_guard<std::mutex> guard(streams().lock);
  return streams().next_id++;
}

std::chrono::microseconds delay() {
  static const long microseconds = std::getenv("STANDIN_DELAY") ? std::atol(std::getenv("STANDIN_DELAY")) : 200;
  return std::chrono::microseconds(microseconds);
}

// One recording of an event.
struct Record {
  std::mutex lock;
  std::condition_variable changed;
  bool done = false;
  double at = 0;
  std::shared_ptr<Graph> graph;  // into which its stream captured when it was recorded

  void finish() {
    std::lock_guard<std::mutex> guard(lock);
    done = true;
    at = now();
    changed.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> guard(lock);
    changed.wait(guard, [this] { return done; });
  }
  bool is_done() {
    std::lock_guard<std::mutex> guard(lock);
    return done;
  }
};

// An event is its last recording. One that was never recorded is done.
struct Event {
  std::mutex lock;
  std::shared_ptr<Record> last;

  std::shared_ptr<Record> get() {
    std::lock_guard<std::mutex> guard(lock);
    return last;
  }
  std::shared_ptr<Record> renew() {
    std::lock_guard<std::mutex> guard(lock);
    return last = std::make_shared<Record>();
  }
};

Event& event_of(aclrtEvent handle) { return *static_cast<Event*>(handle); }

int create(void** result) {
  int device = current_device();
  if (device < 0) return fail(kNoContext, "a stream before a device was chosen");
  *result = new Stream(device);
  return kSuccess;
}

int destroy(void* handle) {
  if (!handle) return fail(kInvalidParameter, "the default stream is not to be destroyed");
  delete static_cast<Stream*>(handle);
  return kSuccess;
}

}  // namespace

double now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Stream::Stream(int device) : device(device), id(next_id()), thread_(&Stream::run, this) {
  std::lock_guard<std::mutex> guard(streams().lock);
  streams().alive.insert(this);
}

Stream::~Stream() {
  {
    std::lock_guard<std::mutex> guard(streams().lock);
    streams().alive.erase(this);
  }
  {
    std::lock_guard<std::mutex> guard(lock_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Stream::push(std::function<void()> task) {
  std::lock_guard<std::mutex> guard(lock_);
  if (graph_) return append(*graph_, std::move(task));
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void Stream::wait() {
  std::unique_lock<std::mutex> guard(lock_);
  changed_.wait(guard, [this] { return tasks_.empty() && !busy_; });
}

bool Stream::idle() {
  std::lock_guard<std::mutex> guard(lock_);
  return tasks_.empty() && !busy_;
}

std::shared_ptr<Graph> Stream::graph() {
  std::lock_guard<std::mutex> guard(lock_);
  return graph_;
}

void Stream::capture_into(std::shared_ptr<Graph> graph) {
  std::lock_guard<std::mutex> guard(lock_);
  graph_ = std::move(graph);
}

void Stream::run() {
  std::unique_lock<std::mutex> guard(lock_);
  while (true) {
    changed_.wait(guard, [this] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    guard.unlock();
    std::this_thread::sleep_for(delay());
    task();
    task = nullptr;  // what it holds goes before anybody hears that it is done
    guard.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

Stream& stream_of(void* handle) {
  if (handle) return *static_cast<Stream*>(handle);
  int device = std::max(current_device(), 0);
  Stream* made = streams().defaults[device];
  if (!made) {
    made = new Stream(device);
    std::lock_guard<std::mutex> guard(streams().lock);
    if (!streams().defaults[device]) streams().defaults[device] = made;
    made = streams().defaults[device];
  }
  return *made;
}

void wait_for_device(int device) {
  std::set<Stream*> alive;
  {
    std::lock_guard<std::mutex> guard(streams().lock);
    alive = streams().alive;
  }
  for (Stream* stream : alive)
    if (stream->device == device) stream->wait();
}

}  // namespace standin

using namespace standin;

extern "C" {

aclError aclrtCreateStreamWithConfig(aclrtStream* result, uint32_t, uint32_t) { return create(result); }
aclError aclrtCreateStream(aclrtStream* result) { return create(result); }
aclError aclrtDestroyStream(aclrtStream stream) { return destroy(stream); }
aclError aclrtDestroyStreamForce(aclrtStream stream) { return destroy(stream); }
aclError aclrtSynchronizeStream(aclrtStream stream) {
  if (auto graph = stream_of(stream).graph()) return refuse(*graph, "a synchronisation");
  return stream_of(stream).wait(), kSuccess;
}
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t) { return aclrtSynchronizeStream(stream); }
aclError aclrtSynchronizeDevice() { return wait_for_device(current_device()), kSuccess; }
aclError aclrtSynchronizeDeviceWithTimeout(int32_t) { return wait_for_device(current_device()), kSuccess; }
aclError aclrtStreamGetId(aclrtStream stream, int32_t* id) { return *id = stream_of(stream).id, kSuccess; }
aclError aclrtSetStreamFailureMode(aclrtStream, uint64_t) { return kSuccess; }
aclError aclrtSetStreamOverflowSwitch(aclrtStream, uint32_t) { return kSuccess; }
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  *status = stream_of(stream).idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return kSuccess;
}

aclError aclrtCreateEvent(aclrtEvent* result) { return *result = new Event, kSuccess; }
aclError aclrtCreateEventWithFlag(aclrtEvent* result, uint32_t) { return aclrtCreateEvent(result); }
aclError aclrtCreateEventExWithFlag(aclrtEvent* result, uint32_t) { return aclrtCreateEvent(result); }
aclError aclrtDestroyEvent(aclrtEvent event) { return delete static_cast<Event*>(event), kSuccess; }
aclError aclrtResetEvent(aclrtEvent, aclrtStream) { return kSuccess; }

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  auto record = event_of(event).renew();
  record->graph = stream_of(stream).graph();
  if (record->graph) record->finish();  // its place in the graph says all
  else stream_of(stream).push([record] { record->finish(); });
  return kSuccess;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  auto record = event_of(event).get();
  if (!record) return kSuccess;
  auto graph = stream_of(stream).graph();
  if (record->graph && !graph) join(record->graph, stream_of(stream));
  else if (!record->graph && graph) record->wait();  // work from before the capture
  else if (!graph) stream_of(stream).push([record] { record->wait(); });
  return kSuccess;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  if (auto record = event_of(event).get()) record->wait();
  return kSuccess;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  auto record = event_of(event).get();
  *status = !record || record->is_done() ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return kSuccess;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  auto record = event_of(event).get();
  *status = !record || record->is_done() ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return kSuccess;
}

aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent start, aclrtEvent end) {
  auto first = event_of(start).get(), last = event_of(end).get();
  if (!first || !last || !first->is_done() || !last->is_done()) return fail(kInvalidParameter, "time of events that did not happen");
  *milliseconds = static_cast<float>(last->at - first->at);
  return kSuccess;
}

int32_t rtStreamCreate(void** result, int32_t) { return create(result); }
int32_t rtStreamDestroy(void* stream) { return destroy(stream); }
int32_t rtStreamSynchronize(void* stream) { return stream_of(stream).wait(), kSuccess; }

}  // extern "C"
