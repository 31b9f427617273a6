// wgmma without a fence and without a wait, accumulators that are touched between MMAs, and setmaxnreg without launch bounds
extern "C" __global__ void no_fence(float *p, unsigned long long a, unsigned long long b) {
  float d[4] = {p[0], p[1], p[2], p[3]};
  for (int k = 0; k < 4; ++k)
  asm volatile("{.reg .pred q; setp.ne.b32 q, 1, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, q, 1, 1, 0, 0;}\n"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a+k), "l"(b+k));
  asm volatile("wgmma.commit_group.sync.aligned;\n");
  asm volatile("wgmma.wait_group.sync.aligned 0;\n");
  for (int i = 0; i < 4; ++i) p[threadIdx.x * 4 + i] = d[i];
}
extern "C" __global__ void no_cap(float *p) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  p[threadIdx.x] = 1;
}
extern "C" __global__ void no_wait(float *p, unsigned long long a, unsigned long long b) {
  float d[4] = {p[0], p[1], p[2], p[3]};
  asm volatile("wgmma.fence.sync.aligned;\n");
  asm volatile("{.reg .pred q; setp.ne.b32 q, 1, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, q, 1, 1, 0, 0;}\n"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
  asm volatile("wgmma.commit_group.sync.aligned;\n");
  for (int i = 0; i < 4; ++i) p[threadIdx.x * 4 + i] = d[i];
}
extern "C" __global__ void __launch_bounds__(128) serialised(float *p, unsigned long long a, unsigned long long b) {
  float d[4] = {p[0], p[1], p[2], p[3]};
  asm volatile("wgmma.fence.sync.aligned;\n");
  for (int k = 0; k < 4; ++k) {
  asm volatile("{.reg .pred q; setp.ne.b32 q, 1, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, q, 1, 1, 0, 0;}\n"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a+k), "l"(b+k));
  if (p[k] > 0) d[1] = d[1] * 2;
  }
  asm volatile("wgmma.commit_group.sync.aligned;\n");
  asm volatile("wgmma.wait_group.sync.aligned 0;\n");
  for (int i = 0; i < 4; ++i) p[threadIdx.x * 4 + i] = d[i];
}
