// an array that is indexed at run time lives in local memory
extern "C" __global__ void local_array(float *p, int *at) {
  float local[64];
  for (int j = 0; j < 64; ++j) local[at[j] & 63] = p[j];
  p[0] = local[at[64] & 63];
}
