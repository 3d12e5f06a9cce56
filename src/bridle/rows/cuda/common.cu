// What all kernels have in common. A group of LANES threads, a warp or a part of one, has a row.
//
// Macros: VALUE and COLUMN are the types of the matrix. On a processor, for tests, LANES is 1 and
// a block has one thread: see tests/device_on_host.py.
#ifndef LANES
#define LANES 32
#endif
#ifndef VALUE
#define VALUE float
#endif
#ifndef COLUMN
#define COLUMN int
#endif

typedef long long Int;

#define INFINITE __longlong_as_double(0x7ff0000000000000LL)

__device__ inline int lane() { return threadIdx.x % LANES; }
__device__ inline Int group() { return (Int(blockIdx.x) * blockDim.x + threadIdx.x) / LANES; }
__device__ inline Int groups() { return Int(gridDim.x) * blockDim.x / LANES; }
__device__ inline Int thread() { return Int(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline Int threads() { return Int(gridDim.x) * blockDim.x; }

// The lanes of this group among those of its warp.
__device__ inline unsigned group_mask() {
  return LANES == 32 ? 0xffffffffu
                     : ((1u << (LANES % 32)) - 1) << (threadIdx.x % 32 / LANES * LANES);
}

// The sum over a group, in every lane, added in the same order each time.
template <class T> __device__ inline T group_sum(T value) {
  for (int offset = LANES / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(group_mask(), value, offset, LANES);
  return value;
}

template <class T> __device__ inline T from_lane(T value, int which) {
  return LANES == 1 ? value : __shfl_sync(group_mask(), value, which, LANES);
}

// The sum over a block of at most 1024 threads, in its first thread, in a fixed order.
__device__ inline double block_sum(double value) {
  __shared__ double parts[32];
  for (int offset = 16; offset > 0 && blockDim.x > 1; offset /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, offset, 32);
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0)
    for (int k = 0; k < (int(blockDim.x) + 31) / 32; ++k)
      sum += parts[k];
  return sum;
}

// A matrix: rows of a CSR matrix, or of a dense one if DENSE is defined. The rows may be a range of
// all rows; offsets count from the first entry of the range.
struct Matrix {
  const Int *offsets;
  const COLUMN *columns;
  const VALUE *values;
  Int n_features;

  __device__ Int begin(Int row) const {
#ifdef DENSE
    return row * n_features;
#else
    return offsets[row];
#endif
  }
  __device__ Int end(Int row) const { return begin(row + 1); }
  __device__ Int column(Int entry, Int row) const {
#ifdef DENSE
    return entry - row * n_features;
#else
    return columns[entry];
#endif
  }
};

#define MATRIX const Int *offsets, const COLUMN *columns, const VALUE *values, Int n_features
#define THE_MATRIX Matrix{offsets, columns, values, n_features}

// Numbers of the rows of a problem: signs, costs C_i and the bounds of alpha_i. Without weights
// all rows cost the same, and there are no arrays of costs.
struct Costs {
  const signed char *signs;
  const double *costs, *bounds;
  double every_cost, every_bound;

  __device__ double y(Int i) const { return signs[i]; }
  __device__ double cost(Int i) const { return costs ? costs[i] : every_cost; }
  __device__ double bound(Int i) const { return costs ? bounds[i] : every_bound; }
};

#define COSTS                                                                                      \
  const signed char *signs, const double *costs, const double *bounds, double every_cost,          \
      double every_bound
#define THE_COSTS Costs{signs, costs, bounds, every_cost, every_bound}
