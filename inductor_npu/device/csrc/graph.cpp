#include "graph.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "runtime.h"

#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>
#define INDUCTOR_NPU_HAS_ACCELERATOR_GRAPH 1
#endif

namespace inductor_npu {
namespace {

constexpr c10::MempoolId_t kNoPool{0, 0};

// The graphs that capture, by capture.
class Captures {
 public:
  static Captures& instance() {
    static auto* captures = new Captures();  // never destroyed: workers may outlive static objects
    return *captures;
  }
  void add(uint64_t capture, CapturedGraph* graph) {
    std::lock_guard<std::mutex> lock(mutex_);
    graphs_[capture] = graph;
  }
  void remove(uint64_t capture) {
    std::lock_guard<std::mutex> lock(mutex_);
    graphs_.erase(capture);
  }
  CapturedGraph* find(uint64_t capture) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = graphs_.find(capture);
    return found != graphs_.end() ? found->second : nullptr;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, CapturedGraph*> graphs_;
};

}  // namespace

CapturedGraph* capturing_graph(const driver::Stream* stream) {
  const uint64_t capture = driver::capture_of(stream);
  return C10_LIKELY(capture == 0) ? nullptr : Captures::instance().find(capture);
}

CapturedGraph* capturing_graph_here() {
  return is_open() ? capturing_graph(native(current_stream())) : nullptr;
}

void refuse_in_capture(driver::Stream* stream, const std::string& what, std::string_view advice) {
  if (C10_LIKELY(driver::capture_of(stream) == 0)) {
    return;
  }
  const std::string message = what + " cannot be captured in a graph: " + std::string(advice);
  driver::invalidate_capture(stream, message);
  TORCH_CHECK(false, message);
}

CapturedGraph::~CapturedGraph() {
  try {
    if (is_open()) {  // in a forked child the memory goes with the process
      reset();
    } else {
      graph_.release();
    }
  } catch (const std::exception& error) {
    TORCH_WARN("a captured graph of npu:", static_cast<int>(device_), " could not be given back: ", error.what());
  }
}

void CapturedGraph::capture_begin(c10::MempoolId_t pool) {
  TORCH_CHECK(!is_capturing(), "this graph is being captured already: end the capture first");
  TORCH_CHECK(!is_captured(), "this graph holds a capture already: reset() it, or capture into a new graph");
  const c10::Stream stream = current_stream();
  capture_ = driver::begin_capture(native(stream));
  device_ = stream.device_index();
  stream_ = stream;
  pool_ = pool == kNoPool ? new_pool_id(/*by_user=*/false) : pool;
  watch_ = std::make_shared<MemoryWatch>();
  retain_pool(device_, pool_);
  route_capture(capture_, pool_);
  Captures::instance().add(capture_, this);
}

void CapturedGraph::capture_end() {
  TORCH_CHECK(is_capturing(), "this graph is not being captured: capture_begin comes first");
  TORCH_CHECK(current_stream(device_) == *stream_, "the capture began on ", *stream_, " and must end there, but ",
              current_stream(device_), " is current");
  allocations_ = end_route(capture_);
  Captures::instance().remove(std::exchange(capture_, 0));
  try {
    graph_ = driver::end_capture(native(*std::exchange(stream_, std::nullopt)));
  } catch (...) {
    give_back();
    throw;
  }
}

void CapturedGraph::replay() {
  check_captured("replay");
  if (C10_UNLIKELY(watch_->lost.load(std::memory_order_relaxed))) {
    std::lock_guard<std::mutex> lock(watch_->mutex);
    TORCH_CHECK(false, "this graph cannot be replayed: memory that it was captured with has been freed (",
                watch_->message, "). Keep the tensors that a graph uses alive as long as the graph, and copy_ new "
                "values into them");
  }
  driver::Stream* stream = native(current_stream(device_));
  if constexpr (library::kQueues) {
    if (CapturedGraph* outer = capturing_graph(stream)) {
      outer->take_draws_of(*this, stream);
    } else {
      for (const auto& draws : draws_) {
        draws->begin_replay(stream);
      }
    }
  }
  driver::replay(graph_, stream);
}

at::Generator CapturedGraph::draw(const c10::intrusive_ptr<library::GeneratorState>& state) {
  if constexpr (library::kQueues) {
    auto known = std::find_if(draws_.begin(), draws_.end(), [&](const auto& draws) { return draws->are_from(*state); });
    if (known == draws_.end()) {
      known = draws_.insert(draws_.end(), std::make_shared<library::CapturedDraws>(state));
    }
    return (*known)->draw();
  }
  TORCH_INTERNAL_ASSERT(false, "operators that run on the calling thread draw in their replay");
}

void CapturedGraph::take_draws_of(const CapturedGraph& inner, driver::Stream* stream) {
  for (const auto& draws : inner.draws_) {
    if (std::find(draws_.begin(), draws_.end(), draws) != draws_.end()) {
      refuse_in_capture(stream, "another replay of a graph that draws random numbers",
                        "both would draw the same; capture what it does instead");
    }
    draws_.push_back(draws);
  }
}

void CapturedGraph::reset() {
  if (is_capturing()) {
    driver::invalidate_capture(native(*stream_), "the graph was reset");
    const c10::Stream before = exchange_stream(*stream_);
    try {
      capture_end();
    } catch (const c10::Error&) {  // as it says: there is no graph
    }
    exchange_stream(before);
  } else if (is_captured()) {
    give_back();
  }
}

void CapturedGraph::give_back() {
  graph_.reset();
  draws_.clear();
  kept_.clear();
  allocations_.clear();
  watch_.reset();
  release_pool(device_, std::exchange(pool_, kNoPool));
}

c10::MempoolId_t CapturedGraph::pool() const {
  TORCH_CHECK(pool_ != kNoPool, "this graph has no pool: it was not captured, or it was reset");
  return pool_;
}

void CapturedGraph::check_captured(const char* what) const {
  TORCH_CHECK(is_captured(), "cannot ", what, " a graph that was not captured: capture_begin and capture_end come first");
}

std::vector<std::string> CapturedGraph::names() const {
  check_captured("describe");
  return driver::names(graph_);
}

void CapturedGraph::debug_dump(const std::string& path) const {
  check_captured("dump");
  std::ofstream file(path);
  file << "digraph npu_graph {\n  node [shape=box];\n";
  size_t index = 0;
  for (const std::string& name : names()) {
    file << "  n" << index << " [label=\"" << index << ": " << name << "\"];\n";
    if (index > 0) {
      file << "  n" << index - 1 << " -> n" << index << ";\n";
    }
    ++index;
  }
  file << "}\n";
  file.close();
  TORCH_CHECK(file.good(), "cannot write the graph to ", path);
}

void CapturedGraph::uses(const void* pointer, const std::string& reader) {
  if (foreign_ == ForeignMemory::kWatched) {
    watch_memory(pointer, pool_, watch_, reader);
  }
}

#ifdef INDUCTOR_NPU_HAS_ACCELERATOR_GRAPH
// torch.accelerator.Graph for npu.
struct AcceleratorGraph final : at::GraphImplInterface {
  explicit AcceleratorGraph(const at::GraphImplArgs& /*args*/) {}

  // No mode forbids other threads anything here: they do not disturb a capture.
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode /*mode*/) override { graph.capture_begin(pool); }
  void capture_end() override { graph.capture_end(); }
  void instantiate() override {}  // what was recorded can run as it stands
  void replay() override { graph.replay(); }
  void reset() override { graph.reset(); }
  c10::MempoolId_t pool() const override { return graph.pool(); }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override { graph.debug_dump(path); }

  CapturedGraph graph;
};
#endif

}  // namespace inductor_npu

#ifdef INDUCTOR_NPU_HAS_ACCELERATOR_GRAPH
namespace at {
REGISTER_GRAPH_IMPL(NPU, inductor_npu::AcceleratorGraph)
}  // namespace at
#endif
