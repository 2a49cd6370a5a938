// npu storages that several processes have: each lies in memory of its own that the operating system counts, so that it
// lasts until the last process lets go of it, whichever made it and however it ended.
//
// A storage moves into such memory when it is sent for the first time. Ordinary segments stay private: they get huge
// pages, and a block of them can be used again without asking another process.
#include <torch/csrc/utils/pybind.h>

#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "allocator.h"
#include "python/bindings.h"
#include "runtime.h"

namespace py = pybind11;

namespace inductor_npu {
namespace {

void move_to_shared(c10::StorageImpl& storage) {
  TORCH_CHECK(!is_of_private_pool(storage.data()),
              "Cannot share a tensor in the memory of a captured graph or a torch.npu.MemPool with other processes: "
              "its address must not change. Send a clone() of it");
  const c10::Device device = storage.device();
  const c10::DeviceGuard guard(device);
  const int descriptor = driver::create_shared(device.index(), storage.nbytes());
  TORCH_CHECK(descriptor != -1, "Cannot make memory for other processes: ", std::strerror(errno));
  c10::DataPtr memory = allocate_shared(descriptor, device.index(), storage.nbytes());
  const c10::Stream stream = current_stream(device.index());
  copy_async(stream, memory.get(), storage.data(), storage.nbytes());
  synchronize_stream(stream);
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_resizable(false);  // the memory of one process must not become another's
}

int share_storage(const c10::Storage& storage) {
  c10::StorageImpl& impl = *storage.unsafeGetStorageImpl();
  const c10::DeviceIndex device = impl.device().index();
  const int before = descriptor_of(impl.data());
  TORCH_CHECK(driver::capture_of(native(current_stream(device))) == 0,
              "Cannot send a tensor to another process while a graph is captured");
  wait_for_all_streams(device);  // whoever gets it must find what was computed so far
  if (before != -1) {
    return before;
  }
  move_to_shared(impl);
  return descriptor_of(impl.data());
}

// The descriptor stays the caller's.
c10::Storage map_storage(int descriptor, size_t size, int device) {
  ensure_open();
  check_device(device);
  TORCH_CHECK(driver::is_shared(descriptor, size), "The file descriptor ", descriptor, " does not stand for ", size,
              " bytes of a tensor");
  const int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  TORCH_CHECK(own != -1, "Cannot receive a tensor: ", std::strerror(errno));
  const auto index = static_cast<c10::DeviceIndex>(device);
  c10::DataPtr memory = allocate_shared(own, index, size);
  driver::note_allocation_written(memory.get());  // by the other process
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), size,
                                                            std::move(memory), device_allocator(),
                                                            /*resizable=*/false));
}

const Bindings bindings([](void* module) {
  auto m = py::reinterpret_borrow<py::module_>(static_cast<PyObject*>(module));
  m.def("share_storage", &share_storage,
        "A file descriptor for the memory of an npu storage, which moves there if need be; valid while the storage is. "
        "Waits for the device.");
  m.def("map_storage", &map_storage, py::arg("descriptor"), py::arg("size"), py::arg("device"),
        "The storage, of `size` bytes, that a descriptor of share_storage stands for.");
});

}  // namespace
}  // namespace inductor_npu
