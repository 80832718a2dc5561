/* A stand-in for libcuda.so.1, CUDA's driver, of which cuDNN asks for all of these before it compiles kernels of its own:
   there is no device. Its description says which one cuDNN compiles for. */

#include <stddef.h>

enum { SUCCESS = 0, NO_DEVICE = 100, VERSION = 13000 };

int cuDriverGetVersion(int *version) { return *version = VERSION, SUCCESS; }
int cuDeviceGetCount(int *count) { return *count = 0, SUCCESS; }
int cuCtxGetCurrent(void **context) { return *context = NULL, SUCCESS; }
int cuGetErrorName(int error, const char **name) { return *name = "no device", SUCCESS; }
int cuGetErrorString(int error, const char **text) { return *text = "no device", SUCCESS; }

#define NONE(name) int name(void) { return NO_DEVICE; }
NONE(cuCtxGetDevice) NONE(cuCtxGetLimit) NONE(cuCtxPopCurrent) NONE(cuCtxPushCurrent) NONE(cuDeviceGet)
NONE(cuDeviceGetAttribute) NONE(cuDevicePrimaryCtxRelease) NONE(cuDevicePrimaryCtxReset) NONE(cuDevicePrimaryCtxRetain)
NONE(cuFuncGetAttribute) NONE(cuFuncSetAttribute) NONE(cuInit) NONE(cuKernelGetAttribute) NONE(cuKernelGetFunction)
NONE(cuKernelSetAttribute) NONE(cuLaunchCooperativeKernel) NONE(cuLaunchKernel) NONE(cuLaunchKernelEx)
NONE(cuLibraryGetKernel) NONE(cuLibraryLoadData) NONE(cuLibraryLoadFromFile) NONE(cuLibraryUnload) NONE(cuLinkAddData)
NONE(cuLinkAddData_v2) NONE(cuLinkAddFile_v2) NONE(cuLinkComplete) NONE(cuLinkCreate) NONE(cuLinkCreate_v2)
NONE(cuLinkDestroy) NONE(cuMemcpyDtoH_v2) NONE(cuModuleGetFunction) NONE(cuModuleGetGlobal_v2) NONE(cuModuleLoadData)
NONE(cuModuleLoadDataEx) NONE(cuModuleLoadFatBinary) NONE(cuModuleUnload)
NONE(cuOccupancyMaxActiveBlocksPerMultiprocessor) NONE(cuOccupancyMaxPotentialClusterSize) NONE(cuStreamGetCtx) NONE(cuStreamGetGreenCtx) NONE(cuStreamSynchronize)
NONE(cuTensorMapEncodeIm2col) NONE(cuTensorMapEncodeTiled)
