// The driver of GPUs: driver.h by CUDA's driver API. Work is queued on CUDA's own streams; the primary context of a device
// is shared with PyTorch's CUDA operators (library_cuda.cpp).
#include <c10/util/Exception.h>
#include <c10/util/SmallVector.h>
#include <c10/util/Type.h>
#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "cuda_errors.h"
#include "cuda_kernel.h"
#include "driver.h"
#include "native_stream.h"
#include "observer.h"
#include "runtime.h"
#include "spin.h"
#include "timeline.h"
#include "waits.h"

namespace inductor_npu::driver {

// A piece of work that ran while somebody observed: between two events.
struct ObservedWork {
  WorkRecord record;
  std::string name;
  CUevent begin, end;
};

struct Stream {
  Stream(int device, int id) : device(device), id(id) {}

  const int device, id;
  CUstream handle = nullptr;
  std::atomic<uint64_t> capture{0};                // the capture that it takes part in; 0: none
  std::atomic<const Kernel*> last_kernel{nullptr};  // that was launched

  std::mutex mutex;  // of what follows
  std::string error;
  CUevent observed_from = nullptr;  // an event, and when it was passed
  int64_t observed_from_ns = 0;
  std::vector<ObservedWork> observed;
};

struct Event {
  explicit Event(bool timing) : timing(timing) {}

  const bool timing;
  mutable std::mutex mutex;
  CUevent handle = nullptr;
  int device = -1;
  Stream* stream = nullptr;  // that it was recorded on last
  uint64_t capture = 0;      // during which that was
};

struct Graph {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  std::mutex mutex;
  std::set<Stream*> replayed_on;
};

namespace {

struct Capture {
  Stream* origin;
  std::vector<Stream*> streams;  // that take part
  std::string invalid;           // why there will be no graph
};

std::mutex capturing;
std::unordered_map<uint64_t, Capture>& captures() {
  static auto* instance = new std::unordered_map<uint64_t, Capture>();  // never destroyed: threads may outlive it
  return *instance;
}

// Allocations and other work that CUDA forbids while some thread captures, done on the side.
class BesideCaptures {
 public:
  BesideCaptures() { cuThreadExchangeStreamCaptureMode(&mode_); }
  ~BesideCaptures() { cuThreadExchangeStreamCaptureMode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

std::string place_of(const Stream& stream) {
  return "stream " + std::to_string(stream.id) + " of npu:" + std::to_string(stream.device);
}

// Keeps what a wait or a query found. An error of CUDA stays for good: the process has to end.
void keep_error(Stream& stream, CUresult result) {
  if (C10_LIKELY(result == CUDA_SUCCESS)) {
    return;
  }
  const Kernel* kernel = stream.last_kernel.load();
  std::string message = "work on " + place_of(stream) + " failed: " + describe(result);
  if (kernel != nullptr) {
    message += "; the last kernel that was launched there is " + kernel->name;
  }
  message += ". The device cannot be used any more in this process. Run it with compute-sanitizer to find the access, or "
             "with CUDA_LAUNCH_BLOCKING=1 for operators of PyTorch";
  std::lock_guard<std::mutex> lock(stream.mutex);
  if (stream.error.empty()) {
    stream.error = std::move(message);
  }
}

// --- Observation -----------------------------------------------------------------------------------------------------

CUevent new_event(bool timing) {
  CUevent event = nullptr;
  check_cuda(cuEventCreate(&event, timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING), "making an event");
  return event;
}

// What timeline::QueueingCall is told of a piece of work.
struct Described {
  explicit Described(const WorkRecord& facts) : facts(facts) {}
  void describe(WorkRecord& record) const { record = facts; }

  const WorkRecord& facts;
  WorkOrigin origin;
};

// The first event of a batch that is observed, with the time at which it was passed.
void begin_batch(Stream& stream) {
  if (stream.observed_from == nullptr) {
    stream.observed_from = new_event(/*timing=*/true);
  }
  check_cuda(cuEventRecord(stream.observed_from, stream.handle), "recording an event");
  check_cuda(cuEventSynchronize(stream.observed_from), "waiting for an event");
  stream.observed_from_ns = now_ns();
}

template <class Enqueue>
void queue_observed(Stream& stream, const char* name, WorkRecord facts, Enqueue enqueue) {
  facts.name = name;
  facts.device = stream.device;
  facts.stream_id = stream.id;
  Described work(facts);
  const timeline::QueueingCall call(work);
  if (stream.capture.load() != 0) {
    enqueue();
    return;
  }
  std::lock_guard<std::mutex> lock(stream.mutex);
  if (stream.observed.empty()) {
    begin_batch(stream);
  }
  facts.origin = work.origin;
  ObservedWork observed{facts, name, new_event(true), new_event(true)};
  check_cuda(cuEventRecord(observed.begin, stream.handle), "recording an event");
  enqueue();
  check_cuda(cuEventRecord(observed.end, stream.handle), "recording an event");
  stream.observed.push_back(std::move(observed));
}

int64_t time_of(const Stream& stream, CUevent event) {
  float milliseconds = 0;
  cuEventElapsedTime(&milliseconds, stream.observed_from, event);
  return stream.observed_from_ns + static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
}

// Tells observers of work that is done.
void report_observed(Stream& stream) {
  std::vector<ObservedWork> done;
  {
    std::lock_guard<std::mutex> lock(stream.mutex);
    done.swap(stream.observed);
  }
  for (ObservedWork& work : done) {
    work.record.name = work.name.c_str();
    work.record.begin_ns = time_of(stream, work.begin);
    work.record.end_ns = time_of(stream, work.end);
    observe(work.record);
    cuEventDestroy(work.begin);
    cuEventDestroy(work.end);
  }
}

}  // namespace

CUstream native_stream(const Stream* stream) noexcept {
  return stream->handle;
}

// --- Devices ---------------------------------------------------------------------------------------------------------

void open(int device_count) {
  check_cuda(cuInit(0), "starting CUDA");
  int there = 0;
  check_cuda(cuDeviceGetCount(&there), "counting the devices");
  TORCH_CHECK(device_count <= there, "There are ", there, " GPUs, fewer than the ", device_count,
              " devices that npu was configured with; CUDA_VISIBLE_DEVICES chooses among those of the machine");
}

// --- Memory ----------------------------------------------------------------------------------------------------------

namespace {

// Shared memory is mapped in whole granules. Which addresses it has is remembered, since it goes another way.
std::mutex sharing;
std::unordered_map<void*, size_t>& shared_ranges() {
  static auto* instance = new std::unordered_map<void*, size_t>();
  return *instance;
}

CUmemAllocationProp shared_properties(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

size_t in_granules(const CUmemAllocationProp& properties, size_t bytes) {
  size_t granule = 0;
  check_cuda(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
             "asking for the granularity of memory");
  return (bytes + granule - 1) / granule * granule;
}

bool release_shared(void* memory) noexcept {
  std::lock_guard<std::mutex> lock(sharing);
  const auto found = shared_ranges().find(memory);
  if (found == shared_ranges().end()) {
    return false;
  }
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  cuMemUnmap(address, found->second);
  cuMemAddressFree(address, found->second);
  shared_ranges().erase(found);
  return true;
}

}  // namespace

void* allocate(int device, size_t bytes) {
  const OnGpu here(device);
  const BesideCaptures beside;
  CUdeviceptr memory = 0;
  const CUresult result = cuMemAlloc(&memory, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return nullptr;
  }
  check_cuda(result, "allocating memory");
  return reinterpret_cast<void*>(memory);
}

void release(int device, void* memory, size_t /*bytes*/) noexcept {
  const OnGpu here(device);
  const BesideCaptures beside;
  if (!release_shared(memory)) {
    cuMemFree(reinterpret_cast<CUdeviceptr>(memory));
  }
}

int create_shared(int device, size_t bytes) {
  const OnGpu here(device);
  const BesideCaptures beside;
  const CUmemAllocationProp properties = shared_properties(device);
  CUmemGenericAllocationHandle handle{};
  if (cuMemCreate(&handle, in_granules(properties, bytes), &properties, 0) != CUDA_SUCCESS) {
    return -1;
  }
  int descriptor = -1;
  const CUresult exported =
      cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  cuMemRelease(handle);  // the descriptor keeps the memory
  return exported == CUDA_SUCCESS ? descriptor : -1;
}

bool is_shared(int descriptor, size_t /*bytes*/) noexcept {
  return descriptor >= 0;  // what it stands for is known when it is mapped
}

void* map_shared(int device, int descriptor, size_t bytes) {
  const OnGpu here(device);
  const BesideCaptures beside;
  const CUmemAllocationProp properties = shared_properties(device);
  const size_t size = in_granules(properties, bytes);
  CUmemGenericAllocationHandle handle{};
  const auto from = reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor));
  if (cuMemImportFromShareableHandle(&handle, from, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS) {
    return nullptr;
  }
  CUdeviceptr address = 0;
  CUresult result = cuMemAddressReserve(&address, size, 0, 0, 0);
  if (result == CUDA_SUCCESS) {
    result = cuMemMap(address, size, 0, handle, 0);
    CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (result != CUDA_SUCCESS || cuMemSetAccess(address, size, &access, 1) != CUDA_SUCCESS) {
      cuMemAddressFree(address, size);
      address = 0;
    }
  }
  cuMemRelease(handle);  // the mapping keeps the memory
  if (address != 0) {
    std::lock_guard<std::mutex> lock(sharing);
    shared_ranges()[reinterpret_cast<void*>(address)] = size;
  }
  return reinterpret_cast<void*>(address);
}

void* allocate_pinned(size_t bytes) {
  const OnGpu here(current_device());
  const BesideCaptures beside;
  void* memory = nullptr;
  const CUresult result = cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return nullptr;
  }
  check_cuda(result, "allocating pinned memory");
  return memory;
}

void release_pinned(void* memory) noexcept {
  const OnGpu here(current_device());
  const BesideCaptures beside;
  cuMemFreeHost(memory);
}

// PyTorch's torch.empty(pin_memory=True) pins by CUDA's allocator, since torch has the device cuda, too.
bool is_pinned_by_others(const void* memory) noexcept {
  CUmemorytype type{};
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  const CUresult known = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  return known == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST;
}

// Nothing checks what kernels do but compute-sanitizer, which needs no help.
void note_allocated(const void* /*memory*/, size_t /*bytes*/) {}
void note_freed(const void* /*memory*/) noexcept {}
void note_written(const void* /*memory*/, size_t /*bytes*/) {}
void note_allocation_written(const void* /*memory*/) {}

// --- Streams ---------------------------------------------------------------------------------------------------------

Stream* create_stream(int device, int id, int priority) {
  const OnGpu here(device);
  const BesideCaptures beside;
  int least = 0, greatest = 0;
  check_cuda(cuCtxGetStreamPriorityRange(&least, &greatest), "asking for priorities of streams");
  auto stream = std::make_unique<Stream>(device, id);
  check_cuda(cuStreamCreateWithPriority(&stream->handle, CU_STREAM_NON_BLOCKING, priority < 0 ? greatest : least),
             "making a stream");
  return stream.release();
}

void copy(Stream* stream, void* destination, const void* source, size_t bytes) {
  const OnGpu here(stream->device);
  const auto enqueue = [&] {
    check_cuda(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(destination), reinterpret_cast<CUdeviceptr>(source), bytes,
                             stream->handle),
               "queueing a copy");
  };
  if (C10_LIKELY(!is_observed())) {
    enqueue();
    return;
  }
  WorkRecord facts{};
  facts.kind = WorkKind::Copy;
  facts.destination = destination;
  facts.source = source;
  facts.copied_bytes = static_cast<int64_t>(bytes);
  queue_observed(*stream, "copy", facts, enqueue);
}

void fill(Stream* stream, void* memory, uint8_t value, size_t bytes) {
  const OnGpu here(stream->device);
  check_cuda(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(memory), value, bytes, stream->handle), "queueing a fill");
}

namespace {

constexpr size_t kHiddenArguments = 2;  // pointers to scratch memory, which no kernel here has

void enqueue_launch(Stream* stream, const Launch& launch, const CudaKernel& kernel) {
  c10::SmallVector<void*, 32> parameters;
  for (size_t i = 0; i < launch.arg_count; ++i) {
    parameters.push_back(const_cast<uint64_t*>(launch.args + i));
  }
  uint64_t none = 0;
  parameters.append(kHiddenArguments, &none);
  const CUresult result =
      cuLaunchKernel(reinterpret_cast<CUfunction>(kernel.kernel), launch.grid[0], launch.grid[1], launch.grid[2],
                     kernel.threads, 1, 1, kernel.shared_bytes, stream->handle, parameters.data(), nullptr);
  TORCH_CHECK(result == CUDA_SUCCESS, "kernel ", kernel.name, " cannot be launched with a grid of (", launch.grid[0],
              ", ", launch.grid[1], ", ", launch.grid[2], ") and ", kernel.threads, " threads a program: ",
              describe(result));
  stream->last_kernel.store(&kernel, std::memory_order_relaxed);
}

}  // namespace

void launch(Stream* stream, const Launch& launch) {
  const OnGpu here(stream->device);
  const auto& kernel = static_cast<const CudaKernel&>(*launch.kernel);
  if (C10_LIKELY(!is_observed())) {
    enqueue_launch(stream, launch, kernel);
    return;
  }
  WorkRecord facts{};
  facts.kind = WorkKind::Kernel;
  std::copy(std::begin(launch.grid), std::end(launch.grid), facts.grid.begin());
  facts.programs = launch.programs;
  queue_observed(*stream, kernel.name.c_str(), facts, [&] { enqueue_launch(stream, launch, kernel); });
}

bool query(const Stream* stream) noexcept {
  const OnGpu here(stream->device);
  const CUresult result = cuStreamQuery(stream->handle);
  if (result == CUDA_ERROR_NOT_READY) {
    return false;
  }
  keep_error(const_cast<Stream&>(*stream), result);
  return true;
}

void synchronize(Stream* stream) {
  if (stream->capture.load() != 0) {
    return;  // CUDA waits for no stream that captures; what it frees meanwhile it frees after the work before
  }
  const OnGpu here(stream->device);
  {
    const WaitScope waiting;
    keep_error(*stream, cuStreamSynchronize(stream->handle));
  }
  report_observed(*stream);
}

std::string take_error(Stream* stream) {
  std::lock_guard<std::mutex> lock(stream->mutex);
  return std::exchange(stream->error, {});
}

// --- Events ----------------------------------------------------------------------------------------------------------

Event* create_event(bool timing) {
  return new Event(timing);
}

void destroy(Event* event) noexcept {
  if (event->handle != nullptr) {
    const OnGpu here(event->device);
    cuEventDestroy(event->handle);
  }
  delete event;
}

void record(Event* event, Stream* stream) {
  const OnGpu here(stream->device);
  std::lock_guard<std::mutex> lock(event->mutex);
  if (event->handle == nullptr || event->device != stream->device) {
    if (event->handle != nullptr) {
      cuEventDestroy(event->handle);
    }
    const BesideCaptures beside;
    event->handle = new_event(event->timing);
    event->device = stream->device;
  }
  check_cuda(cuEventRecord(event->handle, stream->handle), "recording an event");
  event->stream = stream;
  event->capture = stream->capture.load();
}

namespace {

// `stream` is to wait for `event` while one of them takes part in a capture. False if there is nothing to wait for.
bool joins_capture(const Event& event, Stream* stream) {
  const uint64_t own = stream->capture.load();
  if (event.capture == 0) {
    TORCH_CHECK(cuEventQuery(event.handle) == CUDA_SUCCESS, place_of(*stream), " captures a graph and cannot wait for "
                "work of ", place_of(*event.stream), ", which does not take part: synchronize that stream before the "
                "capture begins");
    return false;
  }
  TORCH_CHECK(event.stream->capture.load() == event.capture, "the event was recorded during a capture that is over: it "
              "stands for no work that ", place_of(*stream), " could wait for. Record it again");
  TORCH_CHECK(own == 0 || own == event.capture, place_of(*stream), " captures another graph than ",
              place_of(*event.stream), ", for which it is to wait");
  if (own == 0) {
    std::lock_guard<std::mutex> lock(capturing);
    captures().at(event.capture).streams.push_back(stream);
    stream->capture.store(event.capture);
  }
  return true;
}

void check_not_captured(const Event& event, const char* what) {
  TORCH_CHECK(event.capture == 0, "cannot ", what, " an event that was recorded during the capture of a graph: it orders "
              "work within the graph only. Record it outside of the capture");
}

}  // namespace

void block(const Event* event, Stream* stream) {
  std::lock_guard<std::mutex> lock(event->mutex);
  if (event->stream == nullptr || event->stream == stream) {
    return;  // its own stream is in order anyway
  }
  const OnGpu here(stream->device);
  if (C10_UNLIKELY(event->capture != 0 || stream->capture.load() != 0) && !joins_capture(*event, stream)) {
    return;
  }
  check_cuda(cuStreamWaitEvent(stream->handle, event->handle, CU_EVENT_WAIT_DEFAULT), "waiting for an event");
}

bool query(const Event* event) {
  std::lock_guard<std::mutex> lock(event->mutex);
  check_not_captured(*event, "query");
  if (event->stream == nullptr) {
    return true;
  }
  const OnGpu here(event->device);
  const CUresult result = cuEventQuery(event->handle);
  if (result == CUDA_ERROR_NOT_READY) {
    return false;
  }
  keep_error(*event->stream, result);
  return true;
}

void synchronize(const Event* event) {
  CUevent handle = nullptr;
  Stream* stream = nullptr;
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    check_not_captured(*event, "synchronize");
    handle = event->handle;
    stream = event->stream;
  }
  if (stream != nullptr) {
    const OnGpu here(stream->device);
    const WaitScope waiting;
    keep_error(*stream, cuEventSynchronize(handle));
  }
}

Stream* stream_of(const Event* event) noexcept {
  std::lock_guard<std::mutex> lock(event->mutex);
  return event->stream;
}

bool has_timing(const Event* event) noexcept {
  return event->timing;
}

double elapsed_ms(const Event* start, const Event* end) {
  check_not_captured(*start, "read the time of");
  check_not_captured(*end, "read the time of");
  const OnGpu here(start->device);
  float milliseconds = 0;
  check_cuda(cuEventElapsedTime(&milliseconds, start->handle, end->handle), "reading the time between events");
  return milliseconds;
}

// --- Graphs ----------------------------------------------------------------------------------------------------------

uint64_t begin_capture(Stream* stream) {
  static std::atomic<uint64_t> count{0};
  TORCH_CHECK(stream->capture.load() == 0, place_of(*stream), " captures a graph already: end that capture first");
  const OnGpu here(stream->device);
  // Relaxed: other threads, and allocations of this one, do not disturb the capture.
  check_cuda(cuStreamBeginCapture(stream->handle, CU_STREAM_CAPTURE_MODE_RELAXED), "beginning a capture");
  const uint64_t id = count.fetch_add(1) + 1;
  std::lock_guard<std::mutex> lock(capturing);
  captures()[id] = {stream, {stream}, {}};
  stream->capture.store(id);
  return id;
}

OwnedGraph end_capture(Stream* stream) {
  const uint64_t id = stream->capture.load();
  Capture capture;
  {
    std::lock_guard<std::mutex> lock(capturing);
    const auto found = captures().find(id);
    TORCH_CHECK(found != captures().end() && found->second.origin == stream, place_of(*stream),
                id == 0 ? " captures no graph" : " takes part in the capture that another stream began");
    capture = std::move(found->second);
    captures().erase(found);
  }
  for (Stream* part : capture.streams) {
    part->capture.store(0);
  }
  const OnGpu here(stream->device);
  OwnedGraph graph(new Graph());
  const CUresult ended = cuStreamEndCapture(stream->handle, &graph->graph);
  TORCH_CHECK(capture.invalid.empty(), capture.invalid);
  TORCH_CHECK(ended != CUDA_ERROR_STREAM_CAPTURE_UNJOINED, place_of(*stream), " has not waited for all streams that took "
              "part in the capture: let it wait for them (wait_stream) before the capture ends");
  check_cuda(ended, "ending a capture");
  check_cuda(cuGraphInstantiate(&graph->executable, graph->graph, 0), "making a graph that can be replayed");
  return graph;
}

uint64_t capture_of(const Stream* stream) noexcept {
  return stream->capture.load(std::memory_order_relaxed);
}

void invalidate_capture(Stream* stream, const std::string& reason) {
  std::lock_guard<std::mutex> lock(capturing);
  const auto found = captures().find(stream->capture.load());
  if (found != captures().end() && found->second.invalid.empty()) {
    found->second.invalid = reason;
  }
}

namespace {

// The graph becomes a part of the one that `stream` captures into, after what that has so far on the stream.
void replay_in_capture(const Graph& graph, CUstream stream) {
  CUstreamCaptureStatus status{};
  CUgraph outer = nullptr;
  const CUgraphNode* before = nullptr;
  size_t count = 0;
  CUgraphNode node = nullptr;
#if CUDA_VERSION >= 13000
  const CUgraphEdgeData* edges = nullptr;
  check_cuda(cuStreamGetCaptureInfo(stream, &status, nullptr, &outer, &before, &edges, &count), "reading a capture");
  check_cuda(cuGraphAddChildGraphNode(&node, outer, before, count, graph.graph), "replaying a graph in a capture");
  check_cuda(cuStreamUpdateCaptureDependencies(stream, &node, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
             "replaying a graph in a capture");
#else
  check_cuda(cuStreamGetCaptureInfo(stream, &status, nullptr, &outer, &before, &count), "reading a capture");
  check_cuda(cuGraphAddChildGraphNode(&node, outer, before, count, graph.graph), "replaying a graph in a capture");
  check_cuda(cuStreamUpdateCaptureDependencies(stream, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
             "replaying a graph in a capture");
#endif
}

}  // namespace

void replay(const OwnedGraph& graph, Stream* stream) {
  const OnGpu here(stream->device);
  if (C10_UNLIKELY(stream->capture.load() != 0)) {
    replay_in_capture(*graph, stream->handle);
    return;
  }
  const auto enqueue = [&] { check_cuda(cuGraphLaunch(graph->executable, stream->handle), "replaying a graph"); };
  if (C10_LIKELY(!is_observed())) {
    enqueue();
  } else {
    WorkRecord facts{};
    facts.kind = WorkKind::Operator;  // told as a whole
    queue_observed(*stream, "graph replay", facts, enqueue);
  }
  std::lock_guard<std::mutex> lock(graph->mutex);
  graph->replayed_on.insert(stream);
}

namespace {

std::string name_of(CUgraphNode node) {
  CUgraphNodeType type{};
  check_cuda(cuGraphNodeGetType(node, &type), "reading a graph");
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS parameters{};
      check_cuda(cuGraphKernelNodeGetParams(node, &parameters), "reading a graph");
      const char* name = nullptr;
      const CUresult named = parameters.func != nullptr ? cuFuncGetName(&name, parameters.func)
                                                        : cuKernelGetName(&name, parameters.kern);
      return named == CUDA_SUCCESS && name != nullptr ? c10::demangle(name) : "kernel";
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return "copy";
    case CU_GRAPH_NODE_TYPE_MEMSET: return "fill";
    case CU_GRAPH_NODE_TYPE_GRAPH: return "graph";
    default: return "order";  // events, empty nodes
  }
}

}  // namespace

std::vector<std::string> names(const OwnedGraph& graph) {
  size_t count = 0;
  check_cuda(cuGraphGetNodes(graph->graph, nullptr, &count), "reading a graph");
  std::vector<CUgraphNode> nodes(count);
  check_cuda(cuGraphGetNodes(graph->graph, nodes.data(), &count), "reading a graph");
  std::vector<std::string> result;
  for (const CUgraphNode node : nodes) {
    result.push_back(name_of(node));
  }
  return result;
}

void DestroyGraph::operator()(Graph* graph) const noexcept {
  for (Stream* stream : graph->replayed_on) {
    synchronize(stream);
  }
  if (graph->executable != nullptr) {
    cuGraphExecDestroy(graph->executable);
  }
  if (graph->graph != nullptr) {
    cuGraphDestroy(graph->graph);
  }
  delete graph;
}

}  // namespace inductor_npu::driver
