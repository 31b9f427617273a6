// several entry functions, a device function that is not inlined, static shared memory, barriers
extern "C" __device__ __noinline__ float helper(float *p, int i) {
  float local[64];
  for (int j = 0; j < 64; ++j) local[j] = p[j * i];
  return local[(int)p[i] & 63];
}
extern "C" __global__ void first(float *p) { p[threadIdx.x] = 1; }
extern "C" __global__ void second(float *p) {
  __shared__ float s[256];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[255 - threadIdx.x];
}
extern "C" __global__ void third(float *p, int i) { p[i] = helper(p, i) + helper(p, i + 1); }
