// The Python module _C: memory, its statistics, snapshots and history.
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <torch/csrc/profiler/combined_traceback.h>
#include <torch/csrc/utils/pybind.h>

#include <c10/core/AllocatorConfig.h>
#include <pybind11/stl.h>

#include <unordered_map>
#include <vector>

#include "allocator.h"
#include "python/bindings.h"
#include "runtime.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

c10::DeviceIndex index_of(int device) {
  check_device(device);
  return static_cast<c10::DeviceIndex>(device);
}

py::dict stat_to_dict(const c10::CachingAllocator::Stat& stat) {
  py::dict dict;
  dict["current"] = stat.current;
  dict["peak"] = stat.peak;
  dict["allocated"] = stat.allocated;
  dict["freed"] = stat.freed;
  return dict;
}

py::dict stats_to_dict(const c10::CachingAllocator::StatArray& stats) {
  py::dict dict;
  static constexpr const char* names[] = {"all", "small_pool", "large_pool"};
  for (size_t i = 0; i < stats.size(); ++i) {
    dict[names[i]] = stat_to_dict(stats[i]);
  }
  return dict;
}

py::dict durations_to_dict(const c10::CachingAllocator::DurationStat& stat) {
  py::dict dict;
  dict["total"] = stat.total;
  dict["max"] = stat.max;
  dict["min"] = stat.min;
  dict["count"] = stat.count;
  dict["avg"] = stat.count != 0 ? stat.total / stat.count : 0;
  return dict;
}

py::dict host_memory_stats() {
  const at::HostStats stats = at::getHostAllocator(kNpu)->get_stats();
  py::dict dict;
  dict["allocations"] = stat_to_dict(stats.allocations);
  dict["allocated_bytes"] = stat_to_dict(stats.allocated_bytes);
  dict["active_requests"] = stat_to_dict(stats.active_requests);
  dict["active_bytes"] = stat_to_dict(stats.active_bytes);
  dict["num_host_alloc"] = stats.num_host_alloc;
  dict["num_host_free"] = stats.num_host_free;
  dict["host_alloc_time"] = durations_to_dict(stats.host_alloc_time);
  dict["host_free_time"] = durations_to_dict(stats.host_free_time);
  return dict;
}

py::dict memory_stats(int device) {
  const auto stats = device_allocator()->getDeviceStats(index_of(device));
  py::dict dict;
  dict["allocation"] = stats_to_dict(stats.allocation);
  dict["segment"] = stats_to_dict(stats.segment);
  dict["active"] = stats_to_dict(stats.active);
  dict["inactive_split"] = stats_to_dict(stats.inactive_split);
  dict["allocated_bytes"] = stats_to_dict(stats.allocated_bytes);
  dict["reserved_bytes"] = stats_to_dict(stats.reserved_bytes);
  dict["active_bytes"] = stats_to_dict(stats.active_bytes);
  dict["inactive_split_bytes"] = stats_to_dict(stats.inactive_split_bytes);
  dict["requested_bytes"] = stats_to_dict(stats.requested_bytes);
  dict["oversize_allocations"] = stat_to_dict(stats.oversize_allocations);
  dict["oversize_segments"] = stat_to_dict(stats.oversize_segments);
  dict["num_alloc_retries"] = stats.num_alloc_retries;
  dict["num_ooms"] = stats.num_ooms;
  dict["num_sync_all_streams"] = stats.num_sync_all_streams;
  dict["num_device_alloc"] = stats.num_device_alloc;
  dict["num_device_free"] = stats.num_device_free;
  dict["max_split_size"] = stats.max_split_size;
  return dict;
}

// Lists of frames, innermost first, for each stack once: dicts with filename, line and name, as torch.cuda's.
class Frames {
 public:
  void want(const Stack& stack) {
    if (stack != nullptr && places_.emplace(stack.get(), tracebacks_.size()).second) {
      tracebacks_.push_back(torch::getCapturedTracebackFromContext(stack));
    }
  }

  void look_up() {
    const torch::SymbolizedTracebacks symbolized = torch::symbolize(tracebacks_);
    std::vector<py::dict> frames;
    for (const auto& frame : symbolized.all_frames) {
      py::dict entry;
      entry["name"] = frame.funcname;
      entry["filename"] = frame.filename;
      entry["line"] = frame.lineno;
      frames.push_back(entry);
    }
    for (const auto& indices : symbolized.tracebacks) {
      py::list list;
      for (const uint64_t index : indices) {
        list.append(frames.at(index));
      }
      lists_.push_back(list);
    }
  }

  py::list of(const Stack& stack) const {
    return stack != nullptr ? lists_.at(places_.at(stack.get())) : py::list();
  }

 private:
  std::unordered_map<const c10::GatheredContext*, size_t> places_;
  std::vector<torch::CapturedTraceback*> tracebacks_;
  std::vector<py::list> lists_;
};

py::dict block_to_dict(const BlockSnapshot& block, const Frames& frames) {
  py::dict entry;
  entry["address"] = block.address;
  entry["size"] = block.size;
  entry["requested_size"] = block.requested;
  entry["state"] = block.state;
  entry["allocation"] = block.number;
  entry["frames"] = frames.of(block.stack);
  return entry;
}

py::dict segment_to_dict(const SegmentSnapshot& segment, const Frames& frames) {
  size_t allocated = 0, active = 0, requested = 0;
  py::list blocks;
  for (const BlockSnapshot& block : segment.blocks) {
    const std::string_view state = block.state;
    allocated += state == "active_allocated" ? block.size : 0;
    active += state != "inactive" ? block.size : 0;
    requested += block.requested;
    blocks.append(block_to_dict(block, frames));
  }
  py::dict entry;
  entry["device"] = static_cast<int>(segment.device);
  entry["address"] = segment.address;
  entry["total_size"] = segment.size;
  entry["allocated_size"] = allocated;
  entry["active_size"] = active;
  entry["requested_size"] = requested;
  entry["stream"] = segment.stream;
  entry["segment_pool_id"] = segment.pool;
  entry["segment_type"] = segment.small ? "small" : "large";
  entry["is_expandable"] = false;
  entry["frames"] = frames.of(segment.stack);
  entry["blocks"] = blocks;
  return entry;
}

py::list segments_to_list(const std::vector<SegmentSnapshot>& segments, const Frames& frames) {
  py::list list;
  for (const SegmentSnapshot& segment : segments) {
    list.append(segment_to_dict(segment, frames));
  }
  return list;
}

void want_stacks(Frames& frames, const std::vector<SegmentSnapshot>& segments) {
  for (const SegmentSnapshot& segment : segments) {
    frames.want(segment.stack);
    for (const BlockSnapshot& block : segment.blocks) {
      frames.want(block.stack);
    }
  }
}

py::list snapshot_to_list() {
  const std::vector<SegmentSnapshot> segments = memory_snapshot();
  Frames frames;
  want_stacks(frames, segments);
  frames.look_up();
  return segments_to_list(segments, frames);
}

py::dict event_to_dict(const MemoryEvent& event, const Frames& frames) {
  py::dict entry;
  entry["action"] = kMemoryActions[static_cast<size_t>(event.action)];
  entry[event.action == MemoryAction::OutOfMemory ? "device_free" : "addr"] = event.address;
  entry["size"] = event.size;
  entry["stream"] = event.stream;
  entry["pool_id"] = event.pool;
  entry["time_us"] = event.time_us;
  entry["frames"] = frames.of(event.stack);
  return entry;
}

py::dict settings_to_dict() {
  using Settings = c10::CachingAllocator::AcceleratorAllocatorConfig;
  py::dict entry;
  entry["PYTORCH_NPU_ALLOC_CONF"] = Settings::last_allocator_settings();
  entry["max_split_size"] = static_cast<int64_t>(Settings::max_split_size());
  entry["garbage_collection_threshold"] = Settings::garbage_collection_threshold();
  entry["expandable_segments"] = false;
  py::dict divisions;
  const auto& table = Settings::roundup_power2_divisions();
  for (size_t i = 0; i < table.size(); ++i) {
    divisions[py::str(std::to_string(size_t{1} << i))] = table[i];
  }
  entry["roundup_power2_divisions"] = divisions;
  return entry;
}

// The form that torch/cuda/_memory_viz.py and pytorch.org/memory_viz read.
py::dict history_to_dict() {
  const HistorySnapshot history = memory_history();
  Frames frames;
  want_stacks(frames, history.segments);
  for (const auto& events : history.events) {
    for (const MemoryEvent& event : events) {
      frames.want(event.stack);
    }
  }
  frames.look_up();
  py::list traces;
  for (const auto& events : history.events) {
    py::list trace;
    for (const MemoryEvent& event : events) {
      trace.append(event_to_dict(event, frames));
    }
    traces.append(trace);
  }
  py::dict result;
  result["segments"] = segments_to_list(history.segments, frames);
  result["device_traces"] = traces;
  result["allocator_settings"] = settings_to_dict();
  result["external_annotations"] = py::list();
  return result;
}

void add_host_memory_functions(py::module_& m) {
  m.def("host_memory_stats", &host_memory_stats, "Statistics of pinned memory; times are in microseconds.");
  m.def("host_empty_cache", [] { at::getHostAllocator(kNpu)->empty_cache(); });
  m.def("reset_accumulated_host_memory_stats", [] { at::getHostAllocator(kNpu)->reset_accumulated_stats(); });
  m.def("reset_peak_host_memory_stats", [] { at::getHostAllocator(kNpu)->reset_peak_stats(); });
}

void add_history_functions(py::module_& m) {
  py::enum_<StacksOf>(m, "StacksOf")
      .value("Nothing", StacksOf::Nothing)
      .value("Blocks", StacksOf::Blocks)
      .value("Allocations", StacksOf::Allocations)
      .value("Everything", StacksOf::Everything);
  py::class_<HistorySettings>(m, "HistorySettings")
      .def(py::init<>())
      .def_readwrite("on", &HistorySettings::on)
      .def_readwrite("events", &HistorySettings::events)
      .def_readwrite("stacks", &HistorySettings::stacks)
      .def_readwrite("cpp_frames", &HistorySettings::cpp_frames)
      .def_readwrite("max_events", &HistorySettings::max_events)
      .def_readwrite("skipped", &HistorySettings::skipped);
  m.def("record_memory_history", &record_memory_history, py::arg("settings"), py::arg("clear") = false,
        py::call_guard<py::gil_scoped_release>(), "Returns the settings before.");
  m.def("memory_history", &history_to_dict, "The segments, and what was done since recording began.");
  m.def("allocation_count", &allocation_count, "How many allocations there were, on all devices.");
  m.attr("MEMORY_ACTIONS") = kMemoryActions;
}

void add_memory_functions(py::module_& m) {
  m.def("empty_cache", [] { device_allocator()->emptyCache({0, 0}); });
  m.def("memory_stats", &memory_stats,
        "Statistics of the allocator, nested as torch.cuda.memory_stats_as_nested_dict.");
  m.def("memory_snapshot", &snapshot_to_list, "One dict a segment, with its blocks.");
  m.def(
      "mem_get_info", [](int device) { return device_allocator()->getMemoryInfo(index_of(device)); },
      "(free, total) bytes of the device.");
  m.def("reset_peak_memory_stats", [](int device) { device_allocator()->resetPeakStats(index_of(device)); });
  m.def("reset_accumulated_memory_stats",
        [](int device) { device_allocator()->resetAccumulatedStats(index_of(device)); });
  m.def("set_memory_fraction", [](double fraction, int device) { set_memory_fraction(fraction, index_of(device)); });
  m.def("memory_limit", [](int device) { return memory_limit(index_of(device)); });
  m.def("fill_allocations", &fill_allocations, "From here on each allocation is filled with bytes of 0xFF.");
  m.def("fill_as_fresh", [](const at::Tensor& tensor) {
    const size_t bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
    if (bytes > 0) {
      fill_as_fresh(tensor.mutable_data_ptr(), bytes);
    }
  });
  m.def("raw_alloc", [](size_t size) {
    void* memory = device_allocator()->raw_allocate(size);
    driver::note_allocation_written(memory);  // whoever has no more than an address writes unseen
    return reinterpret_cast<uint64_t>(memory);
  });
  m.def("raw_delete", [](uint64_t address) { device_allocator()->raw_deallocate(reinterpret_cast<void*>(address)); });
  m.def("is_npu_pointer", [](uint64_t address) { return is_npu_pointer(reinterpret_cast<const void*>(address)); });
}

const Bindings bindings([](void* module) {
  auto m = py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module));
  add_memory_functions(m);
  add_history_functions(m);
  add_host_memory_functions(m);
});

}  // namespace
}  // namespace inductor_npu
