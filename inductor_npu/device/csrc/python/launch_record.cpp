// The record of launches that Python can ask for.
#include <torch/csrc/utils/pybind.h>

#include <mutex>
#include <string>
#include <vector>

#include "observer.h"
#include "python/bindings.h"
#include "runtime.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

struct LaunchRecord {
  std::string name;
  WorkRecord facts;
};

std::mutex recording;
std::vector<LaunchRecord>& launches() {
  static auto* instance = new std::vector<LaunchRecord>();  // never destroyed: workers may outlive static objects
  return *instance;
}

void record_launch(const WorkRecord& work) {
  if (work.programs > 0) {
    std::lock_guard<std::mutex> lock(recording);
    launches().push_back({work.name, work});
  }
}

py::list launch_record(bool on) {
  if (is_open()) {
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      wait_for_all_streams(device);
    }
  }
  std::vector<LaunchRecord> taken;
  {
    std::lock_guard<std::mutex> lock(recording);
    taken.swap(launches());
  }
  remove_work_observer(record_launch);
  if (on) {
    add_work_observer(record_launch);
  }
  py::list result;
  for (const LaunchRecord& launch : taken) {
    py::dict entry;
    entry["name"] = launch.name;
    entry["device"] = launch.facts.device;
    entry["stream"] = launch.facts.stream_id;
    entry["programs"] = launch.facts.programs;
    entry["begin_ns"] = launch.facts.begin_ns;
    entry["end_ns"] = launch.facts.end_ns;
    entry["bytes_read"] = launch.facts.bytes_read;
    entry["bytes_written"] = launch.facts.bytes_written;
    entry["vector_operations"] = launch.facts.vector_operations;
    result.append(entry);
  }
  return result;
}

const Bindings bindings([](void* module) {
  py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module))
      .def("launch_record", &launch_record, py::arg("on"),
           "Turns the record of launches on or off, after all queued work is done; returns what was recorded since it "
           "was turned on,\n"
           "one dict a launch. The counters are 0 unless the kernel was compiled to count.")
      .def(
          "observer_count", [] { return observer_count.load(); },
          "How many watch the queued work now: launch_record, and a profile of the device.");
});

}  // namespace
}  // namespace inductor_npu
