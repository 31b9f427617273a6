/* A libcuda.so.1 with just the symbols that TVM's CUDA runtime links: enough for it to load, and no call ever succeeds. */
#define STUB(name) \
  int name() { return 100; }
STUB(cuDeviceGetName)
STUB(cuFuncSetAttribute)
STUB(cuGetErrorName)
STUB(cuGetErrorString)
STUB(cuLaunchKernelEx)
STUB(cuModuleGetFunction)
STUB(cuModuleLoadData)
STUB(cuModuleUnload)
STUB(cuTensorMapEncodeTiled)
