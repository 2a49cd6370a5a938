// What triton-ascend's npu_utils.cpp and its launchers take from CANN's header of this name, which torch_npu's wheel does
// not have; the numbers are CANN's.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "third_party/acl/inc/profiling/aprof_pub.h"

enum { MSPROF_GE_TASK_TYPE_AIV = 2, MSPROF_GE_TASK_TYPE_MIX_AIC = 4, MSPROF_GE_TASK_TYPE_MIX_AIV = 5 };
typedef struct MsprofApi MsprofApi;
typedef struct MsprofCompactInfo MsprofCompactInfo;

#ifdef __cplusplus
extern "C" {
#endif

typedef void* rtStream_t;
typedef int32_t rtError_t;
typedef struct tagRtDevBinary {
  uint32_t magic;
  uint32_t version;
  const void* data;
  uint64_t length;
} rtDevBinary_t;
typedef struct tagRtSmDesc rtSmDesc_t;
typedef enum {
  RT_MEMCPY_HOST_TO_HOST,
  RT_MEMCPY_HOST_TO_DEVICE,
  RT_MEMCPY_DEVICE_TO_HOST,
  RT_MEMCPY_DEVICE_TO_DEVICE
} rtMemcpyKind_t;
typedef enum {
  RT_LIMIT_TYPE_LOW_POWER_TIMEOUT = 0,
  RT_LIMIT_TYPE_SIMT_WARP_STACK_SIZE = 1,
  RT_LIMIT_TYPE_SIMT_DVG_WARP_STACK_SIZE = 2,
  RT_LIMIT_TYPE_STACK_SIZE = 3
} rtLimitType_t;

#define RT_ERROR_NONE 0
#define RT_DEV_BINARY_MAGIC_ELF 0x43554245
#define RT_DEV_BINARY_MAGIC_ELF_AIVEC 0x41415246
#define RT_MEMORY_HBM 2u
#define RT_MEMORY_HOST 0x81u

rtError_t rtSetDevice(int32_t device);
rtError_t rtDevBinaryRegister(const rtDevBinary_t* binary, void** handle);
rtError_t rtFunctionRegister(void* binary, const void* stub, const char* name, const void* device_name, uint32_t mode);
rtError_t rtKernelLaunch(const void* stub, uint32_t blocks, void* arguments, uint32_t size, rtSmDesc_t*, rtStream_t);
rtError_t rtGetSocVersion(char* name, uint32_t room);
rtError_t rtGetAiCoreCount(uint32_t* count);
rtError_t rtStreamCreate(rtStream_t* stream, int32_t priority);
rtError_t rtStreamDestroy(rtStream_t stream);
rtError_t rtStreamSynchronize(rtStream_t stream);
rtError_t rtMalloc(void** address, uint64_t bytes, uint32_t type, uint16_t module);
rtError_t rtFree(void* address);
rtError_t rtMallocHost(void** address, uint64_t bytes, uint16_t module);
rtError_t rtFreeHost(void* address);
rtError_t rtMemcpy(void* to, uint64_t room, const void* from, uint64_t bytes, rtMemcpyKind_t kind);
rtError_t rtGetC2cCtrlAddr(uint64_t* address, uint32_t* length);
rtError_t rtDeviceSetLimit(int32_t device, rtLimitType_t limit, uint32_t value);

#ifdef __cplusplus
}
#endif
