// Kernel machines: values of Mercer kernels, sums of kernel rows, and one working set at a time.

// Mercer kernels, by the names of the core's structs: K(c, x) from c.x, |c|^2 and |x|^2.
struct Parameters {
  VALUE gamma, coef0;
  int degree;
};

__device__ inline VALUE linear(VALUE product, VALUE, VALUE, Parameters) { return product; }

__device__ inline VALUE rbf(VALUE product, VALUE c, VALUE x, Parameters with) {
  const VALUE squared = c + x - 2 * product;
  return exp(-with.gamma * (squared > 0 ? squared : VALUE(0)));
}

__device__ inline VALUE poly(VALUE product, VALUE, VALUE, Parameters with) {
  VALUE base = with.gamma * product + with.coef0, result = 1;
  for (int exponent = with.degree; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1)
      result *= base;
  return result;
}

__device__ inline VALUE sigmoid(VALUE product, VALUE, VALUE, Parameters with) {
  return tanh(with.gamma * product + with.coef0);
}

#ifdef FORMULA
// Turns the inner products of m centres with n rows into values of the kernel, in place.
extern "C" __global__ void apply(VALUE *products, Int m, Int n, const double *centre_norms,
                                 const double *row_norms, double gamma, double coef0, int degree,
                                 double constant) {
  const Parameters with{VALUE(gamma), VALUE(coef0), degree};
  constexpr Int width = 4096; // columns that a block takes at a time
  const Int pieces = (n + width - 1) / width;
  for (Int piece = blockIdx.x; piece < m * pieces; piece += gridDim.x) {
    const Int c = piece / pieces, begin = piece % pieces * width;
    const Int end = begin + width < n ? begin + width : n;
    const VALUE norm = centre_norms[c];
    for (Int p = begin + threadIdx.x; p < end; p += blockDim.x) {
      VALUE &value = products[c * n + p];
      value = FORMULA(value, norm, VALUE(row_norms[p]), with) + VALUE(constant);
    }
  }
}
#endif

// f += sum_k change_k K_k, for kernel rows K_k that stand at `places` of a table of rows of n.
extern "C" __global__ void add_rows(const VALUE *table, Int n, const Int *places,
                                    const double *change, int q, double *f) {
  for (Int p = thread(); p < n; p += threads()) {
    double sum = 0;
#pragma unroll 8
    for (int k = 0; k < q; ++k)
      sum += change[k] * double(table[places[k] * n + p]);
    f[p] += sum;
  }
}

// The best of several candidates: that of the least value, and of these the first.
struct Best {
  double value;
  int index;
};

__device__ inline Best better(Best a, Best b) {
  return b.value < a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

// Over a block, in every thread. Between two uses of the same `parts` there must be a barrier.
__device__ inline Best best_of_block(Best mine, Best *parts) {
  for (int offset = 16; offset > 0 && blockDim.x > 1; offset /= 2)
    mine = better(mine, {__shfl_xor_sync(0xffffffffu, mine.value, offset),
                         __shfl_xor_sync(0xffffffffu, mine.index, offset)});
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = mine;
  __syncthreads();
  Best best = parts[0];
  for (int k = 1; k < (int(blockDim.x) + 31) / 32; ++k)
    best = better(best, parts[k]);
  return best;
}

// The dual variables of some rows: see core/kernel/working_set.hpp. F_i = s_i - y_i is minus y_i
// times the gradient of D; the upper bound of alpha_i has the sign y_i.
struct Variables {
  double *a, *f;
  const double *bound;

  // Room to move alpha y up, or down.
  __device__ double up(Int i) const { return bound[i] > 0 ? bound[i] - a[i] : a[i]; }
  __device__ double down(Int i) const { return bound[i] > 0 ? a[i] : -bound[i] - a[i]; }
  // Moves alpha y by t; where that is all the room there is, exactly to the bound.
  __device__ void move(Int i, double t, bool whole) const {
    const bool positive = bound[i] > 0;
    const double most = positive ? bound[i] : -bound[i], to = positive ? a[i] + t : a[i] - t;
    const double end = (t > 0) == positive ? most : 0;
    a[i] = whole ? end : to < 0 ? 0 : to > most ? most : to;
  }
};

constexpr double TINY = 1e-12, NONE = 1e300;

// How much a row violates the optimality conditions: the less, the more. With a free bias, F of
// those whose alpha y may rise, or -F of those where it may fall; without one, minus what a step
// of this variable alone would raise D by, times 2.
enum Kind { RISING, FALLING, SINGLE };

__device__ inline double key(const Variables &v, const double *diagonal, Int i, int kind) {
  const bool up = v.up(i) > 0, down = v.down(i) > 0;
  const double f = v.f[i];
  if (kind == RISING)
    return up ? f : NONE;
  if (kind == FALLING)
    return down ? -f : NONE;
  const double eta = diagonal[i] > TINY ? diagonal[i] : TINY;
  return (f < 0 && up) || (f > 0 && down) ? -f * f / eta : NONE;
}

// The `m` least keys of every `width` rows, of rows that are not among those taken: n_taken
// positions. Of each kind, then, for every piece: m keys, m positions, the least key of all its
// rows, and the largest |F|.
extern "C" __global__ void candidates(double *a, double *f, const double *bound,
                                      const double *diagonal, Int n, const Int *taken, int n_taken,
                                      int free, Int width, int m, double *out) {
  constexpr int most = 4096;
  __shared__ double keys[most];
  __shared__ Best parts[3][32];
  const Variables v{a, f, bound};
  const Int pieces = (n + width - 1) / width;
  for (Int piece = blockIdx.x; piece < (free ? 2 : 1) * pieces; piece += gridDim.x) {
    const int kind = !free ? SINGLE : piece < pieces ? RISING : FALLING;
    const Int begin = piece % pieces * width;
    const int size = int(begin + width < n ? width : n - begin);
    double *const found = out + piece * (2 * m + 2);
    Best extreme{NONE, size}, largest{0, size};
    for (int k = threadIdx.x; k < size; k += blockDim.x) {
      keys[k] = key(v, diagonal, begin + k, kind);
      extreme = better(extreme, {keys[k], k});
      largest = better(largest, {f[begin + k] < 0 ? f[begin + k] : -f[begin + k], k});
    }
    extreme = best_of_block(extreme, parts[0]);
    largest = best_of_block(largest, parts[1]);
    for (int k = threadIdx.x; k < n_taken; k += blockDim.x)
      if (taken[k] >= begin && taken[k] < begin + size)
        keys[taken[k] - begin] = NONE;
    __syncthreads();
    for (int place = 0; place < m; ++place) {
      Best best{NONE, size};
      for (int k = threadIdx.x; k < size; k += blockDim.x)
        best = better(best, {keys[k], k});
      best = best_of_block(best, parts[2]);
      if (threadIdx.x == 0) {
        found[place] = best.value;
        found[m + place] = double(begin + best.index);
        if (best.index < size)
          keys[best.index] = NONE;
      }
      __syncthreads();
    }
    if (threadIdx.x == 0)
      found[2 * m] = extreme.value, found[2 * m + 1] = -largest.value;
    __syncthreads();
  }
}

// A working set: the variables at these positions, copied.
constexpr int MOST = 1024;

struct WorkingSet {
  double a[MOST], f[MOST], bound[MOST], diagonal[MOST];
  Best parts[3][32];

  __device__ Variables load(int q, const Int *at, const double *alpha, const double *gradient,
                            const double *bounds, const double *diagonals) {
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      a[k] = alpha[at[k]], f[k] = gradient[at[k]];
      bound[k] = bounds[at[k]], diagonal[k] = diagonals[at[k]];
    }
    __syncthreads();
    return {a, f, bound};
  }
  // Also y times what was added to alpha, and how the work went.
  __device__ void store(int q, const Int *at, double *alpha, double *change, double *report,
                        Int steps, double gain, double curvature) {
    __syncthreads();
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      change[k] = bound[k] > 0 ? a[k] - alpha[at[k]] : alpha[at[k]] - a[k];
      alpha[at[k]] = a[k];
    }
    if (threadIdx.x == 0)
      report[0] = double(steps), report[1] = gain, report[2] = curvature;
  }
};

// Pairs by second-order information until the violation is a part `goal` of what it was. K are the
// kernel's values among the set.
extern "C" __global__ void solve_pairs(const VALUE *K, int q, const Int *at, double *alpha,
                                       const double *gradient, const double *bounds,
                                       const double *diagonals, double goal, Int most,
                                       double *change, double *report) {
  __shared__ WorkingSet set;
  const Variables v = set.load(q, at, alpha, gradient, bounds, diagonals);
  double enough = -1, gain = 0, curvature = NONE;
  Int step = 0;
  for (; step < most; ++step) {
    Best rising{NONE, q}, falling{NONE, q};
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      rising = better(rising, {key(v, set.diagonal, k, RISING), k});
      falling = better(falling, {key(v, set.diagonal, k, FALLING), k});
    }
    rising = best_of_block(rising, set.parts[0]);
    falling = best_of_block(falling, set.parts[1]);
    const double lowest = rising.value, violation = -falling.value - lowest;
    if (!(violation > 0) || violation <= enough)
      break;
    if (enough < 0)
      enough = goal * violation;
    const int i = rising.index;
    const VALUE *ki = K + Int(i) * q;
    Best second{0, q};
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      const double difference = v.f[k] - lowest;
      if (!(difference > 0) || !(v.down(k) > 0))
        continue;
      const double eta = set.diagonal[i] + set.diagonal[k] - 2 * double(ki[k]);
      second = better(second, {-difference * difference / (eta > TINY ? eta : TINY), k});
    }
    second = best_of_block(second, set.parts[2]);
    const int j = second.index;
    if (j == q) // differences whose squares underflow, or that are no numbers
      break;
    const VALUE *kj = K + Int(j) * q;
    const double size = set.diagonal[i] + set.diagonal[j], bend = size - 2 * double(ki[j]);
    const double eta = bend > TINY ? bend : TINY, difference = v.f[j] - lowest;
    const double up = v.up(i), down = v.down(j), room = up < down ? up : down;
    const double t = difference / eta < room ? difference / eta : room;
    const double relative = bend / (size > TINY ? size : TINY);
    curvature = relative < curvature ? relative : curvature;
    gain += t * difference - 0.5 * t * t * eta;
    __syncthreads(); // all have read what changes now
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      v.f[k] += t * (double(ki[k]) - double(kj[k]));
      if (k == i)
        v.move(k, t, t >= up);
      if (k == j)
        v.move(k, -t, t >= down);
    }
  }
  set.store(q, at, alpha, change, report, step, gain, curvature);
}

// Without the equality: the single variable that raises D the most.
extern "C" __global__ void solve_singles(const VALUE *K, int q, const Int *at, double *alpha,
                                         const double *gradient, const double *bounds,
                                         const double *diagonals, double goal, Int most,
                                         double *change, double *report) {
  __shared__ WorkingSet set;
  const Variables v = set.load(q, at, alpha, gradient, bounds, diagonals);
  double enough = -1, gain = 0, curvature = NONE;
  Int step = 0;
  for (; step < most; ++step) {
    Best best{0, q}, worst{0, q};
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      const double merit = key(v, set.diagonal, k, SINGLE);
      best = better(best, {merit, k});
      if (merit < NONE)
        worst = better(worst, {v.f[k] < 0 ? v.f[k] : -v.f[k], k});
    }
    best = best_of_block(best, set.parts[0]);
    worst = best_of_block(worst, set.parts[1]);
    if (best.index == q || -worst.value <= enough)
      break;
    if (enough < 0)
      enough = goal * -worst.value;
    const int i = best.index;
    const VALUE *ki = K + Int(i) * q;
    const double bend = set.diagonal[i], size = bend < 0 ? -bend : bend, f = v.f[i];
    const double eta = bend > TINY ? bend : TINY, slope = f < 0 ? -f : f;
    const double relative = bend / (size > TINY ? size : TINY);
    curvature = relative < curvature ? relative : curvature;
    const double room = f < 0 ? v.up(i) : v.down(i);
    const double length = slope / eta < room ? slope / eta : room, t = f < 0 ? length : -length;
    gain += length * slope - 0.5 * length * length * eta;
    __syncthreads(); // all have read what changes now
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      v.f[k] += t * double(ki[k]);
      if (k == i)
        v.move(k, t, length >= room);
    }
  }
  set.store(q, at, alpha, change, report, step, gain, curvature);
}
