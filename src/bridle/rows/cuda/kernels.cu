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

// Over a block, in every thread. `parts` must not be in use since the last barrier but one.
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

// The variables of a working set: see core/kernel/working_set.hpp. F_i = s_i - y_i is minus y_i
// times the gradient of D.
constexpr int MOST = 1024;
constexpr double TINY = 1e-12, NONE = 1e300;

struct WorkingSet {
  double a[MOST], f[MOST], cost[MOST], diagonal[MOST]; // the cost has the label's sign
  Best parts[3][32];

  // Room to move alpha y up, or down.
  __device__ double up(int k) const { return cost[k] > 0 ? cost[k] - a[k] : a[k]; }
  __device__ double down(int k) const { return cost[k] > 0 ? a[k] : -cost[k] - a[k]; }
  // Moves alpha y by t; where that is all the room there is, exactly to the bound.
  __device__ void move(int k, double t, bool whole) {
    const bool positive = cost[k] > 0;
    const double most = positive ? cost[k] : -cost[k], to = positive ? a[k] + t : a[k] - t;
    const double bound = (t > 0) == positive ? most : 0;
    a[k] = whole ? bound : to < 0 ? 0 : to > most ? most : to;
  }
  __device__ void load(const VALUE *K, int q, const double *alpha, const double *gradient,
                       const double *signed_cost) {
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      a[k] = alpha[k], f[k] = gradient[k], cost[k] = signed_cost[k];
      diagonal[k] = K[Int(k) * q + k];
    }
    __syncthreads();
  }
  // Also y times what was added to alpha, and how the work went.
  __device__ void store(int q, double *alpha, double *change, double *report, Int steps,
                        double gain, double curvature) {
    __syncthreads();
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      change[k] = cost[k] > 0 ? a[k] - alpha[k] : alpha[k] - a[k];
      alpha[k] = a[k];
    }
    if (threadIdx.x == 0)
      report[0] = double(steps), report[1] = gain, report[2] = curvature;
  }
};

// Pairs by second-order information until the violation is a part `goal` of what it was.
extern "C" __global__ void solve_pairs(const VALUE *K, int q, double *alpha, const double *gradient,
                                       const double *signed_cost, double goal, Int most,
                                       double *change, double *report) {
  __shared__ WorkingSet set;
  set.load(K, q, alpha, gradient, signed_cost);
  double enough = -1, gain = 0, curvature = NONE;
  Int step = 0;
  for (; step < most; ++step) {
    Best rising{NONE, q}, falling{NONE, q};
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      if (set.up(k) > 0)
        rising = better(rising, {set.f[k], k});
      if (set.down(k) > 0)
        falling = better(falling, {-set.f[k], k});
    }
    rising = best_of_block(rising, set.parts[0]);
    falling = best_of_block(falling, set.parts[1]);
    const double lowest = rising.value, violation = -falling.value - lowest;
    if (rising.index == q || falling.index == q || !(violation > 0) || violation <= enough)
      break;
    if (enough < 0)
      enough = goal * violation;
    const int i = rising.index;
    const VALUE *ki = K + Int(i) * q;
    Best second{0, q};
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      const double difference = set.f[k] - lowest;
      if (!(difference > 0) || !(set.down(k) > 0))
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
    const double eta = bend > TINY ? bend : TINY, difference = set.f[j] - lowest;
    const double up = set.up(i), down = set.down(j), room = up < down ? up : down;
    const double t = difference / eta < room ? difference / eta : room;
    const double relative = bend / (size > TINY ? size : TINY);
    curvature = relative < curvature ? relative : curvature;
    gain += t * difference - 0.5 * t * t * eta;
    __syncthreads(); // all have read what changes now
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      set.f[k] += t * (double(ki[k]) - double(kj[k]));
      if (k == i)
        set.move(k, t, t >= up);
      if (k == j)
        set.move(k, -t, t >= down);
    }
  }
  set.store(q, alpha, change, report, step, gain, curvature);
}

// Without the equality: the single variable that raises D the most.
extern "C" __global__ void solve_singles(const VALUE *K, int q, double *alpha,
                                         const double *gradient, const double *signed_cost,
                                         double goal, Int most, double *change, double *report) {
  __shared__ WorkingSet set;
  set.load(K, q, alpha, gradient, signed_cost);
  double enough = -1, gain = 0, curvature = NONE;
  Int step = 0;
  for (; step < most; ++step) {
    Best best{0, q}, worst{0, q};
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      const double f = set.f[k];
      if (!((f < 0 && set.up(k) > 0) || (f > 0 && set.down(k) > 0)))
        continue;
      const double eta = set.diagonal[k] > TINY ? set.diagonal[k] : TINY;
      worst = better(worst, {f < 0 ? f : -f, k});
      best = better(best, {-f * f / eta, k});
    }
    worst = best_of_block(worst, set.parts[0]);
    best = best_of_block(best, set.parts[1]);
    if (best.index == q || -worst.value <= enough)
      break;
    if (enough < 0)
      enough = goal * -worst.value;
    const int i = best.index;
    const VALUE *ki = K + Int(i) * q;
    const double size = set.diagonal[i] < 0 ? -set.diagonal[i] : set.diagonal[i];
    const double eta = set.diagonal[i] > TINY ? set.diagonal[i] : TINY, f = set.f[i];
    const double relative = set.diagonal[i] / (size > TINY ? size : TINY);
    curvature = relative < curvature ? relative : curvature;
    const double room = f < 0 ? set.up(i) : set.down(i), slope = f < 0 ? -f : f;
    const double length = slope / eta < room ? slope / eta : room, t = f < 0 ? length : -length;
    gain += length * slope - 0.5 * length * length * eta;
    __syncthreads(); // all have read what changes now
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      set.f[k] += t * double(ki[k]);
      if (k == i)
        set.move(k, t, length >= room);
    }
  }
  set.store(q, alpha, change, report, step, gain, curvature);
}
