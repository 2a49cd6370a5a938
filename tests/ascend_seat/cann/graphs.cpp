// Captured graphs ("model runtime instances", aclmdlRI): while a stream captures, its tasks are kept in place of being
// done. A replay does all of them, in the order in which they came.
#include <atomic>

#include "acl/acl.h"
#include "standin.h"

namespace standin {

struct Graph {
  explicit Graph(uint32_t id) : id(id) {}
  void append(std::function<void()> task) {
    std::lock_guard<std::mutex> guard(lock);
    tasks.push_back(std::move(task));
  }
  void run() {
    std::lock_guard<std::mutex> guard(running);
    for (auto& task : tasks) task();
  }

  const uint32_t id;
  std::mutex lock, running;
  std::deque<std::function<void()>> tasks;
  std::vector<Stream*> streams;  // that capture into it
  std::string invalid;           // why there will be none
  std::shared_ptr<Graph>* handle = nullptr;
};

namespace {

// What a handle is: a reference to a graph, which has one.
using Handle = std::shared_ptr<Graph>;

Graph& graph_of(aclmdlRI handle) { return **static_cast<Handle*>(handle); }

}  // namespace

void append(Graph& graph, std::function<void()> task) { graph.append(std::move(task)); }

void join(const std::shared_ptr<Graph>& graph, Stream& stream) {
  stream.wait();
  stream.capture_into(graph);
  std::lock_guard<std::mutex> guard(graph->lock);
  graph->streams.push_back(&stream);
}

int refuse(Graph& graph, const char* what) {
  std::lock_guard<std::mutex> guard(graph.lock);
  graph.invalid = what;
  return fail(kStreamCaptured, "%s while the stream captures a graph", what);
}

}  // namespace standin

using namespace standin;

extern "C" {

aclError aclmdlRICaptureBegin(aclrtStream handle, aclmdlRICaptureMode) {
  static std::atomic<uint32_t> made{0};
  Stream& stream = stream_of(handle);
  if (!handle) return fail(kInvalidParameter, "the default stream captures no graph");
  if (stream.graph()) return fail(kStreamCaptured, "the stream captures a graph already");
  auto graph = std::make_shared<Graph>(++made);
  graph->handle = new Handle(graph);
  join(graph, stream);
  return kSuccess;
}

aclError aclmdlRICaptureGetInfo(aclrtStream handle, aclmdlRICaptureStatus* status, aclmdlRI* model) {
  auto graph = stream_of(handle).graph();
  *status = !graph                  ? ACL_MODEL_RI_CAPTURE_STATUS_NONE
            : graph->invalid.empty() ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE
                                     : ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
  if (graph && model) *model = graph->handle;
  return kSuccess;
}

aclError aclmdlRICaptureEnd(aclrtStream handle, aclmdlRI* model) {
  auto graph = stream_of(handle).graph();
  *model = nullptr;
  if (!graph) return fail(kInvalidParameter, "the stream captures no graph");
  for (Stream* stream : graph->streams) stream->capture_into(nullptr);
  if (!graph->invalid.empty()) {
    delete graph->handle;
    return fail(kStreamCaptured, "there is no graph: %s", graph->invalid.c_str());
  }
  *model = graph->handle;
  return kSuccess;
}

aclError aclmdlRIGetId(aclmdlRI model, uint32_t* id) { return *id = graph_of(model).id, kSuccess; }
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode*) { return kSuccess; }

aclError aclmdlRIExecuteAsync(aclmdlRI model, aclrtStream stream) {
  Handle graph = *static_cast<Handle*>(model);
  stream_of(stream).push([graph] { graph->run(); });
  return kSuccess;
}

aclError aclmdlRIDestroy(aclmdlRI model) { return delete static_cast<Handle*>(model), kSuccess; }

// Not of CANN: a task of ../eager.py.
void standin_push(aclrtStream stream, void (*task)(int64_t), int64_t argument) {
  stream_of(stream).push([task, argument] { task(argument); });
}

}  // extern "C"
