// Devices and what they say of themselves, errors, settings that change nothing here, the profiler's reports.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "standin.h"

namespace standin {
namespace {

struct Context {
  int device;
};
Context contexts[kMostDevices];
bool used[kMostDevices];
thread_local Context* current = nullptr;
thread_local char message[512] = "";

// As inductor_npu/target/ascend.py has them.
constexpr Chip kChips[] = {
    {"Ascend910B1", 24, 48},   {"Ascend910B2", 24, 48},   {"Ascend910B2C", 24, 48},  {"Ascend910B3", 20, 40},
    {"Ascend910B4", 20, 40},   {"Ascend910B4-1", 20, 40}, {"Ascend910_9362", 20, 40}, {"Ascend910_9372", 20, 40},
    {"Ascend910_9381", 24, 48}, {"Ascend910_9382", 24, 48}, {"Ascend910_9391", 24, 48}, {"Ascend910_9392", 24, 48},
};

int choose(int device) {
  if (device < 0 || device >= device_count()) return fail(kInvalidDevice, "device %d of %d", device, device_count());
  contexts[device].device = device;
  used[device] = true;
  current = &contexts[device];
  return kSuccess;
}

}  // namespace

int fail(int error, const char* format, ...) {
  va_list values;
  va_start(values, format);
  std::vsnprintf(message, sizeof message, format, values);
  va_end(values);
  std::fprintf(stderr, "stand-in CANN: %s\n", message);
  return error;
}

long missing(const char* name) {
  if (const char* report = std::getenv("STANDIN_REPORT")) {
    if (FILE* file = std::fopen(report, "a")) {
      std::fprintf(file, "%s\n", name);
      std::fclose(file);
    }
  }
  return fail(kNotImplemented, "it has no %s", name);
}

int device_count() {
  const char* wanted = std::getenv("STANDIN_DEVICES");
  return wanted ? std::min(std::atoi(wanted), kMostDevices) : 2;
}

int current_device() { return current ? current->device : -1; }

const Chip& chip() {
  static Chip found = [] {
    const char* wanted = std::getenv("STANDIN_SOC");
    if (!wanted) wanted = "Ascend910B3";
    for (const Chip& known : kChips)
      if (!std::strcmp(known.name, wanted)) return known;
    return Chip{wanted, 20, 40};  // one that nobody knows yet
  }();
  return found;
}

}  // namespace standin

using namespace standin;

extern "C" {

aclError aclInit(const char*) { return kSuccess; }
aclError aclFinalize() { return kSuccess; }
const char* aclGetRecentErrMsg() { return message; }
void aclAppLog(aclLogLevel, const char*, const char*, uint32_t, const char*, ...) {}
aclError aclrtPeekAtLastError(aclrtLastErrLevel) { return kSuccess; }
aclError aclrtGetLastError(aclrtLastErrLevel) { return kSuccess; }

aclError aclrtGetDeviceCount(uint32_t* count) { return *count = device_count(), kSuccess; }
aclError aclrtSetDevice(int32_t device) { return choose(device); }
aclError aclrtGetDevice(int32_t* device) {
  *device = current_device();
  return *device < 0 ? kNoContext : kSuccess;
}
aclError aclrtResetDevice(int32_t) { return kSuccess; }
aclError aclrtGetCurrentContext(aclrtContext* context) { return *context = current, current ? kSuccess : kNoContext; }
aclError aclrtSetCurrentContext(aclrtContext context) { return current = static_cast<Context*>(context), kSuccess; }
aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t* flags, int32_t* active) {
  if (flags) *flags = 0;
  if (active) *active = used[device];
  return kSuccess;
}
aclError aclrtDeviceCanAccessPeer(int32_t* can, int32_t, int32_t) { return *can = 1, kSuccess; }
aclError aclrtDeviceEnablePeerAccess(int32_t, uint32_t) { return kSuccess; }

const char* aclrtGetSocName() { return chip().name; }
aclError aclGetDeviceCapability(uint32_t, aclDeviceInfo what, int64_t* value) {
  switch (what) {
    case ACL_DEVICE_INFO_AI_CORE_NUM: *value = chip().cube_cores; return kSuccess;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM: *value = chip().vector_cores; return kSuccess;
    case ACL_DEVICE_INFO_L2_SIZE: *value = int64_t{192} << 20; return kSuccess;
    default: return fail(kInvalidParameter, "capability %d is not known", static_cast<int>(what));
  }
}
aclError aclrtGetDeviceInfo(uint32_t, aclrtDevAttr what, int64_t* value) {
  switch (what) {
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM: *value = chip().cube_cores; return kSuccess;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM: *value = chip().vector_cores; return kSuccess;
    case ACL_DEV_ATTR_L2_CACHE_SIZE: *value = int64_t{192} << 20; return kSuccess;
    default: return *value = 0, kSuccess;
  }
}
int32_t rtSetDevice(int32_t device) { return choose(device); }
int32_t rtGetSocVersion(char* name, uint32_t room) { return std::snprintf(name, room, "%s", chip().name), kSuccess; }
int32_t rtGetAiCoreCount(uint32_t* count) { return *count = chip().cube_cores, kSuccess; }
int32_t rtDeviceSetLimit(int32_t, int, uint32_t) { return kSuccess; }

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode) { return kSuccess; }
aclError aclrtSetOpExecuteTimeOut(uint32_t) { return kSuccess; }
aclError aclrtSubscribeReport(uint64_t, aclrtStream) { return kSuccess; }
aclError aclrtUnSubscribeReport(uint64_t, aclrtStream) { return kSuccess; }
aclError aclSetCompileopt(aclCompileOpt, const char*) { return kSuccess; }
size_t aclGetCompileoptSize(aclCompileOpt) { return 16; }
aclError aclGetCompileopt(aclCompileOpt, char* value, size_t room) { return std::snprintf(value, room, "disable"), kSuccess; }

static int64_t options[64];
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt option, int64_t value) { return options[option] = value, kSuccess; }
aclError aclrtSetSysParamOpt(aclSysParamOpt option, int64_t value) { return options[option] = value, kSuccess; }
aclError aclrtGetSysParamOpt(aclSysParamOpt option, int64_t* value) { return *value = options[option], kSuccess; }
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt option, int64_t* value) { return *value = options[option], kSuccess; }

// A launcher reports each kernel where a profiler asks for it: none does.
int MsprofReportApi(unsigned, const void*) { return 0; }
int MsprofReportCompactInfo(unsigned, void*, unsigned) { return 0; }
int MsprofReportAdditionalInfo(unsigned, void*, unsigned) { return 0; }
uint64_t MsprofGetHashId(const char*, size_t) { return 1; }
uint64_t MsprofSysCycleTime() { return static_cast<uint64_t>(now() * 1e6); }
int MsprofRegisterCallback(unsigned, void*) { return 0; }

}  // extern "C"
