// Checked mode: what kernels do to device memory, held against the memory that there is and who wrote it.
//
// On for a whole process or not at all. Where it is off, the functions here return at once and no kernel calls them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "host_kernel.h"

namespace inductor_npu::memory_check {

extern bool on;
inline bool is_on() noexcept {
  return on;
}
// Before the first allocation.
void turn_on() noexcept;

// --- Told by the allocator -------------------------------------------------------------------------------------------

// `bytes` from `memory` on are somebody's now; nobody has written them yet.
void allocated(const void* memory, size_t bytes);
void freed(const void* memory) noexcept;

// --- Told by whoever writes device memory and is not a kernel --------------------------------------------------------

void written(const void* memory, size_t bytes);
// The whole allocation that `memory` lies in: where it is not known which of its bytes were written.
void allocation_written(const void* memory);

// --- Kernels ---------------------------------------------------------------------------------------------------------

// What a compiled kernel says before it touches memory (see codegen/emit/checks.py): program `program` accesses `lanes`
// times `bytes` bytes, at `addresses`, where `active` (null: everywhere) is not 0. `access` numbers the access in the
// kernel; `kind` is one of AccessKind, with kUnordered added where programs of the launch are not ordered by atomics.
// `argument` is the pointer that the addresses were derived from, 0 if that is not known. Does not return where it finds
// a fault: the launch ends there.
enum AccessKind : int32_t { kLoad = 0, kStore = 1, kAtomic = 2, kUnordered = 8 };
void check_access(int64_t program, int32_t access, int32_t kind, int32_t bytes, uint64_t argument,
                  const uint64_t* addresses, const uint8_t* active, int32_t lanes);

// Calls `kernel` for programs [begin, end) of `programs`, until a fault is found. Returns what the kernel returns.
int32_t run(const HostKernel& kernel, const uint64_t* args, int64_t begin, int64_t end, int64_t programs,
            const int32_t grid[3], uint8_t* scratch, KernelContext* context);

// --- What was found --------------------------------------------------------------------------------------------------

enum class Fault { kOutside, kRace, kUnwritten };

struct Finding {
  Fault fault;
  int32_t access;
  int32_t bytes;
  int64_t program;
  uintptr_t address;  // of the first byte at fault
  uint64_t argument;
  std::optional<std::pair<uintptr_t, uintptr_t>> allocation;  // of the argument; none: it points to no allocation
  int64_t other_program = -1;                                 // of a race; -1: one of several
  bool other_wrote = false;
};

// What the last launch of the kernel with this handle was found to do wrong, which is forgotten then; none if nothing.
// Its stream must be done with it.
std::optional<Finding> take_finding(uint64_t function);

}  // namespace inductor_npu::memory_check
