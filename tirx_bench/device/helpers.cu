// Small kernels that a measurement needs around the kernel it measures. Compiled by NVRTC, so nothing is included.
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ u64 now_ns() { u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }

// Evict L2 by reading other memory: no dirty line is left whose write-back the next kernel would pay for.
extern "C" __global__ void read_lines(const uint4 *lines, u64 count, u32 *sink) {
  u32 sum = 0;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) {
    uint4 v = lines[i];
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x9e3779b9u) *sink = sum;  // keeps the loads; the buffer is zero, so it never happens
}

// Drop the lines of a buffer that was just written, without writing them back. 128 bytes a line.
extern "C" __global__ void discard_lines(char *bytes, u64 lines) {
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < lines; i += (u64)gridDim.x * blockDim.x)
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(bytes + i * 128) : "memory");
}

// The time and the cycle counter of the first SM. One block per SM; the others leave.
extern "C" __global__ void stamp(u64 *out) {
  u32 sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (sm) return;
  u64 cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles));
  out[0] = now_ns();
  out[1] = cycles;
}

// Hold the stream, and the SMs that it fills, until the host has opened the gate `turn`, or `limit_ns` has passed; then say so.
extern "C" __global__ void gate(volatile u32 *opened, u32 turn, u64 limit_ns, volatile u32 *timed_out) {
  u64 start = now_ns();
  if (threadIdx.x == 0)
    while (*opened < turn)
      if (now_ns() - start > limit_ns) { *timed_out = turn; break; }
  __syncthreads();
}

// Follow a chain of indices: every load waits for the one before. Cycles per load, which tells L2 from DRAM.
extern "C" __global__ void chase(const u32 *next, u32 start, u32 steps, u64 *out) {
  u32 at = start;
  u64 before = clock64();
  for (u32 i = 0; i < steps; ++i) at = __ldcg(next + at);
  out[0] = clock64() - before;
  out[1] = at;
}
