// Streams, and events between them.
#include <atomic>
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

// Seconds that a stream waits for an event of another one; 0 for no limit.
std::atomic<uint32_t> wait_limit{0};

// The stream whose task this thread runs.
thread_local Stream* running = nullptr;

// One recording of an event.
struct Record {
  std::mutex lock;
  std::condition_variable changed;
  bool done = false;
  double at = 0;
  Trouble trouble;               // of its stream, when it came to the event
  std::shared_ptr<Graph> graph;  // into which its stream captured when it was recorded

  void finish(Trouble so_far) {
    std::lock_guard<std::mutex> guard(lock);
    done = true;
    at = now();
    trouble = std::move(so_far);
    changed.notify_all();
  }
  Trouble wait() {
    std::unique_lock<std::mutex> guard(lock);
    changed.wait(guard, [this] { return done; });
    return trouble;
  }
  // As a task of a stream, which has the trouble of the other stream from here on.
  void hold_up() {
    std::unique_lock<std::mutex> guard(lock);
    auto is_done = [this] { return done; };
    uint32_t limit = wait_limit;
    if (!limit) changed.wait(guard, is_done);
    else if (!changed.wait_for(guard, std::chrono::seconds(limit), is_done))
      return task_failed(kTaskTimeout, "a stream waited " + std::to_string(limit) + " s for an event of another one");
    if (trouble.error) task_failed(trouble.error, trouble.why);
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

int report(const Trouble& trouble) { return trouble.error ? fail(trouble.error, "%s", trouble.why.c_str()) : kSuccess; }

int synchronize(Stream& stream, int milliseconds) {
  if (auto graph = stream.graph()) return refuse(*graph, "a synchronisation");
  if (!stream.wait(milliseconds)) return fail(kStreamSyncTimeout, "a stream was not done within %d ms", milliseconds);
  return report(stream.trouble());
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

void Stream::wait() { wait(-1); }

bool Stream::wait(int milliseconds) {
  std::unique_lock<std::mutex> guard(lock_);
  auto done = [this] { return tasks_.empty() && !busy_; };
  if (milliseconds >= 0) return changed_.wait_for(guard, std::chrono::milliseconds(milliseconds), done);
  changed_.wait(guard, done);
  return true;
}

Trouble Stream::trouble() {
  std::lock_guard<std::mutex> guard(lock_);
  return trouble_;
}

void task_failed(int error, std::string why) {
  std::lock_guard<std::mutex> guard(running->lock_);
  if (!running->trouble_.error) running->trouble_ = {error, std::move(why)};
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
  running = this;
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

Trouble wait_for_device(int device) {
  std::set<Stream*> alive;
  {
    std::lock_guard<std::mutex> guard(streams().lock);
    alive = streams().alive;
  }
  Trouble first;
  for (Stream* stream : alive) {
    if (stream->device != device) continue;
    stream->wait();
    if (!first.error) first = stream->trouble();
  }
  return first;
}

}  // namespace standin

using namespace standin;

extern "C" {

aclError aclrtCreateStreamWithConfig(aclrtStream* result, uint32_t, uint32_t) { return create(result); }
aclError aclrtCreateStream(aclrtStream* result) { return create(result); }
aclError aclrtDestroyStream(aclrtStream stream) { return destroy(stream); }
aclError aclrtDestroyStreamForce(aclrtStream stream) { return destroy(stream); }
aclError aclrtSynchronizeStream(aclrtStream stream) { return synchronize(stream_of(stream), -1); }
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t milliseconds) {
  return synchronize(stream_of(stream), milliseconds);
}
aclError aclrtSynchronizeDevice() { return report(wait_for_device(current_device())); }
aclError aclrtSynchronizeDeviceWithTimeout(int32_t) { return aclrtSynchronizeDevice(); }
aclError aclrtSetOpWaitTimeout(uint32_t seconds) { return wait_limit = seconds, kSuccess; }
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
  if (record->graph) record->finish({});  // its place in the graph says all
  else stream_of(stream).push([record] { record->finish(running->trouble()); });
  return kSuccess;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  auto record = event_of(event).get();
  if (!record) return kSuccess;
  auto graph = stream_of(stream).graph();
  if (record->graph && !graph) join(record->graph, stream_of(stream));
  else if (!record->graph && graph) record->wait();  // work from before the capture
  else if (!graph) stream_of(stream).push([record] { record->hold_up(); });
  return kSuccess;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  auto record = event_of(event).get();
  return record ? report(record->wait()) : kSuccess;
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
int32_t rtStreamSynchronize(void* stream) { return stream_of(stream).wait(), report(stream_of(stream).trouble()); }

}  // extern "C"
