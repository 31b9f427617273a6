// NVIDIA's own occupancy calculator: lines of "major minor registers threads static dynamic barriers" to blocks per SM.
// The device properties are those that cudaGetDeviceProperties gives for each compute capability.
#include <climits>
#include <cstdio>

#include "cuda_occupancy.h"

int main() {
  int major, minor, registers, threads, fixed, dynamic, barriers;
  while (std::scanf("%d %d %d %d %d %d %d", &major, &minor, &registers, &threads, &fixed, &dynamic, &barriers) == 7) {
    bool small = major == 12 || (major == 8 && minor);
    int shared = small ? 100 << 10 : major == 8 ? 164 << 10 : 228 << 10;
    cudaOccDeviceProp device;
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = small ? 1536 : 2048;
    device.regsPerBlock = device.regsPerMultiprocessor = 64 << 10;
    device.warpSize = 32;
    device.numSms = 1;
    device.sharedMemPerBlock = 48 << 10;
    device.sharedMemPerMultiprocessor = shared;
    device.reservedSharedMemPerBlock = 1 << 10;
    device.sharedMemPerBlockOptin = shared - (1 << 10);
    cudaOccFuncAttributes function;
    function.maxThreadsPerBlock = INT_MAX;
    function.numRegs = registers;
    function.sharedSizeBytes = fixed;
    function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    function.maxDynamicSharedSizeBytes = dynamic;
    function.numBlockBarriers = barriers;
    cudaOccDeviceState state;
    cudaOccResult result;
    int status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads, dynamic);
    std::printf("%d\n", status ? -status : result.activeBlocksPerMultiprocessor);
  }
}
