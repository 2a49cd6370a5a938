// Which bytes of which allocation were written, and which programs of the running launch touched them.
#include "memory_check.h"

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "runtime.h"

namespace inductor_npu::memory_check {

bool on = false;

namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
template <class T>
using Array = std::unique_ptr<T[], Free>;

// Zeroed, and no memory of the host's until it is touched.
template <class T>
Array<T> zeros(size_t count) {
  auto* memory = static_cast<T*>(std::calloc(count, sizeof(T)));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return Array<T>(memory);
}

struct Allocation {
  uintptr_t begin;
  size_t bytes;
  size_t unwritten;        // bytes that nobody wrote
  Array<uint8_t> written;  // for each byte whether somebody did; null where all are written
  uintptr_t end() const { return begin + bytes; }
};

// Who touched a byte in a launch: the program's number + 1; 0 is nobody.
struct Users {
  uint32_t writer, reader;
};
constexpr uint32_t kSeveral = UINT32_MAX;

struct Touched {
  size_t bytes = 0;
  Array<Users> users;
};

struct Launch {
  int64_t programs;
  std::unordered_map<uintptr_t, Touched> touched;  // by where allocations begin
  std::optional<Finding> finding;
  std::jmp_buf stop;
};

// One access of a kernel, as check_access gets it.
struct Access {
  int64_t program;
  int32_t number, kind, bytes;
  uint64_t argument;
  bool reads() const { return (kind & ~kUnordered) != kStore; }
  bool writes() const { return (kind & ~kUnordered) != kLoad; }
  bool writes_plainly() const { return (kind & ~kUnordered) == kStore; }
};

std::mutex table_mutex;
std::map<uintptr_t, Allocation>& table() {
  static auto* instance = new std::map<uintptr_t, Allocation>();  // never destroyed: tensors are freed until the end
  return *instance;
}

std::mutex launch_mutex;  // one checked launch at a time
thread_local Launch* running = nullptr;

std::mutex findings_mutex;
std::unordered_map<const HostKernel*, Finding> findings;

Allocation* allocation_of(uintptr_t address) {
  const auto above = table().upper_bound(address);
  if (above == table().begin()) {
    return nullptr;
  }
  Allocation& allocation = std::prev(above)->second;
  return address < allocation.end() ? &allocation : nullptr;
}

void mark_written(Allocation& allocation, uintptr_t begin, uintptr_t end) {
  if (allocation.written == nullptr) {
    return;
  }
  for (uintptr_t byte = begin; byte < end; ++byte) {
    uint8_t& written = allocation.written[byte - allocation.begin];
    allocation.unwritten -= 1 - written;
    written = 1;
  }
  if (allocation.unwritten == 0) {
    allocation.written.reset();
  }
}

void mark_all_written(Allocation& allocation) {
  allocation.unwritten = 0;
  allocation.written.reset();
}

Finding finding_of(Fault fault, const Access& access, uintptr_t address, const Allocation* allocation) {
  Finding finding{fault, access.number, access.bytes, access.program, address, access.argument, std::nullopt};
  if (allocation != nullptr) {
    finding.allocation.emplace(allocation->begin, allocation->end());
  }
  return finding;
}

// Notes that `access` touches a byte, and returns the program that it conflicts with: -1 for one of several, none if
// there is no conflict. An atomic conflicts with what a plain read conflicts with: the writes of other programs.
std::optional<int64_t> conflict(const Access& access, Users& users) {
  const auto self = static_cast<uint32_t>(access.program) + 1;
  if (users.writer != 0 && users.writer != self) {
    return int64_t{users.writer} - 1;
  }
  if (access.writes_plainly()) {
    if (users.reader != 0 && users.reader != self) {
      return users.reader == kSeveral ? -1 : int64_t{users.reader} - 1;
    }
    users.writer = self;
  } else {
    users.reader = users.reader == 0 || users.reader == self ? self : kSeveral;
  }
  return std::nullopt;
}

Users* users_of(Launch& launch, const Access& access, const Allocation& allocation) {
  if (launch.programs == 1 || (access.kind & kUnordered) == 0) {
    return nullptr;
  }
  Touched& touched = launch.touched[allocation.begin];
  if (touched.bytes != allocation.bytes) {
    touched = {allocation.bytes, zeros<Users>(allocation.bytes)};
  }
  return touched.users.get();
}

// Bytes [begin, end), which lie side by side, at once.
std::optional<Finding> check_range(Launch& launch, const Access& access, Allocation* allocation, uintptr_t begin,
                                   uintptr_t end) {
  if (access.argument == 0) {
    allocation = allocation_of(begin);
  }
  if (allocation == nullptr || begin < allocation->begin || begin >= allocation->end()) {
    return finding_of(Fault::kOutside, access, begin, allocation);
  }
  if (end > allocation->end()) {
    const uintptr_t whole = (allocation->end() - begin) / access.bytes * access.bytes;  // accesses that are inside
    return finding_of(Fault::kOutside, access, begin + whole, allocation);
  }
  Users* users = users_of(launch, access, *allocation);
  for (uintptr_t byte = begin; byte < end; ++byte) {
    const size_t offset = byte - allocation->begin;
    if (access.reads() && allocation->written != nullptr && allocation->written[offset] == 0) {
      return finding_of(Fault::kUnwritten, access, byte, allocation);
    }
    if (users == nullptr) {
      continue;
    }
    const bool other_wrote = users[offset].writer != 0;
    if (const auto other = conflict(access, users[offset])) {
      Finding finding = finding_of(Fault::kRace, access, byte, allocation);
      finding.other_program = *other;
      finding.other_wrote = other_wrote;
      return finding;
    }
  }
  if (access.writes()) {
    mark_written(*allocation, begin, end);
  }
  return std::nullopt;
}

std::optional<Finding> check_lanes(Launch& launch, const Access& access, const uint64_t* addresses,
                                   const uint8_t* active, int32_t lanes) {
  std::lock_guard<std::mutex> lock(table_mutex);
  Allocation* allocation = access.argument == 0 ? nullptr : allocation_of(access.argument);
  for (int32_t lane = 0; lane < lanes;) {
    if (active != nullptr && active[lane] == 0) {
      ++lane;
      continue;
    }
    const uintptr_t begin = addresses[lane];
    uintptr_t end = begin + access.bytes;
    for (++lane; lane < lanes && addresses[lane] == end && (active == nullptr || active[lane] != 0); ++lane) {
      end += access.bytes;
    }
    if (auto finding = check_range(launch, access, allocation, begin, end)) {
      return finding;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Finding> take_finding(uint64_t function) {
  std::lock_guard<std::mutex> lock(findings_mutex);
  const Kernel* kernel = kernel_from_handle(function);
  const auto entry = kernel != nullptr ? findings.find(&of_host(*kernel)) : findings.end();
  if (entry == findings.end()) {
    return std::nullopt;
  }
  const Finding found = entry->second;
  findings.erase(entry);
  return found;
}

void turn_on() noexcept {
  on = true;
}

void allocated(const void* memory, size_t bytes) {
  if (!on) {
    return;
  }
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  std::lock_guard<std::mutex> lock(table_mutex);
  table().insert_or_assign(begin, Allocation{begin, bytes, bytes, zeros<uint8_t>(bytes)});
}

void freed(const void* memory) noexcept {
  if (!on) {
    return;
  }
  std::lock_guard<std::mutex> lock(table_mutex);
  table().erase(reinterpret_cast<uintptr_t>(memory));
}

void written(const void* memory, size_t bytes) {
  if (!on) {
    return;
  }
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  std::lock_guard<std::mutex> lock(table_mutex);
  if (Allocation* allocation = allocation_of(begin)) {
    mark_written(*allocation, begin, std::min(begin + bytes, allocation->end()));
  }
}

void allocation_written(const void* memory) {
  if (!on) {
    return;
  }
  std::lock_guard<std::mutex> lock(table_mutex);
  if (Allocation* allocation = allocation_of(reinterpret_cast<uintptr_t>(memory))) {
    mark_all_written(*allocation);
  }
}

void check_access(int64_t program, int32_t access, int32_t kind, int32_t bytes, uint64_t argument,
                  const uint64_t* addresses, const uint8_t* active, int32_t lanes) {
  Launch* launch = running;
  if (launch == nullptr) {
    return;
  }
  launch->finding = check_lanes(*launch, Access{program, access, kind, bytes, argument}, addresses, active, lanes);
  if (launch->finding.has_value()) {
    // Out of the kernel, past frames of compiled code that own nothing: it must not go on, the access may crash.
    std::longjmp(launch->stop, 1);
  }
}

int32_t run(const HostKernel& kernel, const uint64_t* args, int64_t begin, int64_t end, int64_t programs,
            const int32_t grid[3], uint8_t* scratch, KernelContext* context) {
  std::lock_guard<std::mutex> lock(launch_mutex);
  Launch launch;
  launch.programs = programs;
  running = &launch;
  volatile int32_t failed = 0;
  if (setjmp(launch.stop) == 0) {
    failed = kernel.entry(args, begin, end, grid, scratch, context);
  }
  running = nullptr;
  if (launch.finding.has_value()) {
    std::lock_guard<std::mutex> keep(findings_mutex);
    findings.insert_or_assign(&kernel, *launch.finding);
  }
  return failed;
}

}  // namespace inductor_npu::memory_check
