// 64 values that live across a barrier in 24 registers
extern "C" __global__ void spills(float *p) {
  float x[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) x[i] = p[i * 32 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) p[i * 32 + threadIdx.x] = x[i] * x[63 - i];
}
