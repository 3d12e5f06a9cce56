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

// f += sum_k change_k K_k over those that moved, report[3] of them, for kernel rows K_k that stand at
// `places` of a table of rows of n. The groups of a block share the sum of LANES columns.
extern "C" __global__ void add_rows(const VALUE *__restrict__ table, Int n,
                                    const Int *__restrict__ places, const int *__restrict__ moved,
                                    const double *__restrict__ change, const double *report,
                                    double *f) {
  __shared__ double parts[1024];
  const int own = threadIdx.x / LANES, n_groups = blockDim.x / LANES, n_moved = int(report[3]);
  for (Int begin = Int(blockIdx.x) * LANES; begin < n; begin += Int(gridDim.x) * LANES) {
    const Int p = begin + lane();
    double sum = 0;
    if (p < n) {
#pragma unroll 8
      for (int k = own; k < n_moved; k += n_groups)
        sum += change[k] * double(table[places[moved[k]] * n + p]);
    }
    parts[threadIdx.x] = sum;
    __syncthreads();
    if (own == 0 && p < n) {
      for (int g = 1; g < n_groups; ++g)
        sum += parts[g * LANES + lane()];
      f[p] += sum;
    }
    __syncthreads();
  }
}

// Some columns of some rows of a table.
extern "C" __global__ void gather(const VALUE *table, Int n, const Int *places, Int m,
                                  const Int *columns, Int width, VALUE *out) {
  constexpr Int at_once = 1024; // columns that a block takes at a time
  const Int pieces = (width + at_once - 1) / at_once;
  for (Int piece = blockIdx.x; piece < m * pieces; piece += gridDim.x) {
    const Int row = piece / pieces, begin = piece % pieces * at_once;
    const Int end = begin + at_once < width ? begin + at_once : width;
    for (Int c = begin + threadIdx.x; c < end; c += blockDim.x)
      out[row * width + c] = table[places[row] * n + columns[c]];
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

__device__ inline Best best_of_warp(Best mine) {
  for (int offset = 16; offset > 0 && blockDim.x > 1; offset /= 2)
    mine = better(mine, {__shfl_xor_sync(0xffffffffu, mine.value, offset, 32),
                         __shfl_xor_sync(0xffffffffu, mine.index, offset, 32)});
  return mine;
}

__device__ inline Best best_of_parts(const Best *parts) {
  Best best = parts[0];
  for (int k = 1; k < (int(blockDim.x) + 31) / 32; ++k)
    best = better(best, parts[k]);
  return best;
}

// Over a block, in every thread. Between two uses of the same `parts` there must be a barrier.
__device__ inline Best best_of_block(Best mine, Best *parts) {
  mine = best_of_warp(mine);
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = mine;
  __syncthreads();
  return best_of_parts(parts);
}

// Two at a time, with one barrier.
__device__ inline void best_of_block(Best &one, Best &other, Best (*parts)[32]) {
  one = best_of_warp(one), other = best_of_warp(other);
  if (threadIdx.x % 32 == 0)
    parts[0][threadIdx.x / 32] = one, parts[1][threadIdx.x / 32] = other;
  __syncthreads();
  one = best_of_parts(parts[0]), other = best_of_parts(parts[1]);
}

constexpr double TINY = 1e-12, NONE = 1e300;

// Room to move alpha y up, or down, where the upper bound of alpha has the sign y.
__device__ inline double room_up(double a, double bound) { return bound > 0 ? bound - a : a; }
__device__ inline double room_down(double a, double bound) { return bound > 0 ? a : -bound - a; }

// How much a variable violates the optimality conditions: the less, the more. F = s - y is minus y
// times the gradient of D (see core/kernel/working_set.hpp). With a free bias, F of those whose alpha y may rise, or -F of those where it may fall; without one, minus what a step
// of this variable alone would raise D by, times 2.
enum Kind { RISING, FALLING, SINGLE };

__device__ inline double key(double f, double up, double down, double diagonal, int kind) {
  if (kind == RISING)
    return up > 0 ? f : NONE;
  if (kind == FALLING)
    return down > 0 ? -f : NONE;
  const double eta = diagonal > TINY ? diagonal : TINY;
  return (f < 0 && up > 0) || (f > 0 && down > 0) ? -f * f / eta : NONE;
}

// The `m` least keys of every `width` rows, of rows that are not among those taken: n_taken
// positions. Of each kind, then, for every piece: m keys, m positions, the least key of all its
// rows, and the largest |F|.
extern "C" __global__ void candidates(const double *a, const double *f, const double *bound,
                                      const double *diagonal, Int n, const Int *taken, int n_taken,
                                      int free, Int width, int m, double *out) {
  constexpr int most = 4096;
  __shared__ double keys[most];
  __shared__ Best parts[3][32];
  const Int pieces = (n + width - 1) / width;
  for (Int piece = blockIdx.x; piece < (free ? 2 : 1) * pieces; piece += gridDim.x) {
    const int kind = !free ? SINGLE : piece < pieces ? RISING : FALLING;
    const Int begin = piece % pieces * width;
    const int size = int(begin + width < n ? width : n - begin);
    double *const found = out + piece * (2 * m + 2);
    Best extreme{NONE, size}, largest{0, size};
    for (int k = threadIdx.x; k < size; k += blockDim.x) {
      const Int i = begin + k;
      const double up = room_up(a[i], bound[i]), down = room_down(a[i], bound[i]);
      keys[k] = key(f[i], up, down, diagonal[i], kind);
      extreme = better(extreme, {keys[k], k});
      largest = better(largest, {f[i] < 0 ? f[i] : -f[i], k});
    }
    best_of_block(extreme, largest, parts);
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

// Of each block, its rows' part of the gap with the bias b.
extern "C" __global__ void gap(const double *a, const double *f, const double *bound, Int n,
                               double b, double *out) {
  double sum = 0;
  for (Int i = thread(); i < n; i += threads()) {
    const bool positive = bound[i] > 0;
    const double slack = positive ? -(f[i] + b) : f[i] + b; // 1 - y (s + b)
    sum += (slack > 0 ? (positive ? bound[i] : -bound[i]) * slack : 0) - a[i] * slack;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0)
    out[blockIdx.x] = sum;
}

// Which variables do not rest at a bound, by the least F that may rise and the largest that may
// fall, or, without a free bias, by the worst violation `low`.
extern "C" __global__ void at_work(const double *a, const double *f, const double *bound, Int n,
                                   int free, double up, double low, bool *out) {
  for (Int i = thread(); i < n; i += threads()) {
    const bool rises = room_up(a[i], bound[i]) > 0, falls = room_down(a[i], bound[i]) > 0;
    const bool violates = (f[i] < 0 && rises) || (f[i] > 0 && falls);
    const double size = f[i] < 0 ? -f[i] : f[i];
    const bool rests = free ? (!rises || f[i] > low) && (!falls || f[i] < up)
                            : !(rises && falls) && !violates && size > low;
    out[i] = !rests;
  }
}

// A working set: the variables at some positions. A thread has PER of them in its registers, every
// blockDim-th; what others ask for stands in shared memory, too.
constexpr int MOST = 1024, PER = LANES == 1 ? MOST : 4;

struct WorkingSet {
  double a[MOST], f[MOST], bound[MOST], diagonal[MOST];
  Best parts[3][32];
};

struct Own {
  double f[PER], up[PER], down[PER], diagonal[PER];
  int q;

  __device__ int at(int c) const { return threadIdx.x + c * blockDim.x; }
  __device__ Own(WorkingSet &set, int q, const Int *where, const double *alpha,
                 const double *gradient, const double *bounds, const double *diagonals)
      : q(q) {
#pragma unroll
    for (int c = 0; c < PER; ++c) {
      const int k = at(c);
      f[c] = up[c] = down[c] = diagonal[c] = 0; // of none: it cannot move
      if (k >= q)
        continue;
      set.a[k] = alpha[where[k]], set.bound[k] = bounds[where[k]];
      set.f[k] = f[c] = gradient[where[k]];
      set.diagonal[k] = diagonal[c] = diagonals[where[k]];
      up[c] = room_up(set.a[k], set.bound[k]), down[c] = room_down(set.a[k], set.bound[k]);
    }
    __syncthreads();
  }
  // The thread's values of a row of K.
  __device__ void read(const VALUE *row, VALUE (&values)[PER]) const {
#pragma unroll
    for (int c = 0; c < PER; ++c)
      values[c] = at(c) < q ? row[at(c)] : VALUE(0);
  }
  // Moves alpha y of a variable of this thread by t; where that is all the room there is, exactly
  // to the bound.
  __device__ void move(WorkingSet &set, int c, double t, bool whole) {
    double &a = set.a[at(c)];
    const double bound = set.bound[at(c)], most = bound > 0 ? bound : -bound;
    const double to = bound > 0 ? a + t : a - t, end = (t > 0) == (bound > 0) ? most : 0;
    a = whole ? end : to < 0 ? 0 : to > most ? most : to;
    up[c] = room_up(a, bound), down[c] = room_down(a, bound);
  }
  // alpha; of those that moved, which they are and y times what was added; and how the work went.
  __device__ void store(WorkingSet &set, const Int *where, double *alpha, int *moved,
                        double *change, double *report, Int steps, double gain,
                        double curvature) const {
    __syncthreads();
    for (int k = threadIdx.x; k < q; k += blockDim.x) {
      double &a = alpha[where[k]];
      set.f[k] = set.bound[k] > 0 ? set.a[k] - a : a - set.a[k];
      a = set.a[k];
    }
    __syncthreads();
    if (threadIdx.x > 0)
      return;
    int n_moved = 0;
    for (int k = 0; k < q; ++k)
      if (set.f[k] != 0)
        moved[n_moved] = k, change[n_moved] = set.f[k], ++n_moved;
    report[0] = double(steps), report[1] = gain, report[2] = curvature, report[3] = n_moved;
  }
};

// Pairs by second-order information until the violation is a part `goal` of what it was. K are the
// kernel's values among the set.
extern "C" __global__ void solve_pairs(const VALUE *__restrict__ K, int q, const Int *where,
                                       double *alpha, const double *gradient,
                                       const double *bounds, const double *diagonals, double goal,
                                       Int most, int *moved, double *change, double *report) {
  __shared__ WorkingSet set;
  Own own(set, q, where, alpha, gradient, bounds, diagonals);
  double enough = -1, gain = 0, curvature = NONE;
  Int step = 0;
  for (; step < most; ++step) {
    Best rising{NONE, q}, falling{NONE, q};
#pragma unroll
    for (int c = 0; c < PER; ++c) {
      rising = better(rising, {key(own.f[c], own.up[c], own.down[c], 0, RISING), own.at(c)});
      falling = better(falling, {key(own.f[c], own.up[c], own.down[c], 0, FALLING), own.at(c)});
    }
    best_of_block(rising, falling, set.parts);
    const double lowest = rising.value, violation = -falling.value - lowest;
    if (!(violation > 0) || violation <= enough)
      break;
    if (enough < 0)
      enough = goal * violation;
    const int i = rising.index;
    VALUE ki[PER], kj[PER];
    own.read(K + Int(i) * q, ki);
    Best second{0, q};
#pragma unroll
    for (int c = 0; c < PER; ++c) {
      const double difference = own.f[c] - lowest;
      const double eta = set.diagonal[i] + own.diagonal[c] - 2 * double(ki[c]);
      if (difference > 0 && own.down[c] > 0)
        second = better(
            second, {-difference * difference / (eta > TINY ? eta : TINY), own.at(c)});
    }
    second = best_of_block(second, set.parts[2]);
    const int j = second.index;
    if (j == q) // differences whose squares underflow, or that are no numbers
      break;
    own.read(K + Int(j) * q, kj);
    const double size = set.diagonal[i] + set.diagonal[j];
    const double bend = size - 2 * double(K[Int(i) * q + j]);
    const double eta = bend > TINY ? bend : TINY, difference = set.f[j] - lowest;
    const double up = room_up(set.a[i], set.bound[i]), down = room_down(set.a[j], set.bound[j]);
    const double room = up < down ? up : down;
    const double t = difference / eta < room ? difference / eta : room;
    const double relative = bend / (size > TINY ? size : TINY);
    curvature = relative < curvature ? relative : curvature;
    gain += t * difference - 0.5 * t * t * eta;
    __syncthreads(); // all have read what changes now
#pragma unroll
    for (int c = 0; c < PER; ++c) {
      own.f[c] += t * (double(ki[c]) - double(kj[c]));
      if (own.at(c) < q)
        set.f[own.at(c)] = own.f[c];
      if (own.at(c) == i)
        own.move(set, c, t, t >= up);
      if (own.at(c) == j)
        own.move(set, c, -t, t >= down);
    }
  }
  own.store(set, where, alpha, moved, change, report, step, gain, curvature);
}

// Without the equality: the single variable that raises D the most.
extern "C" __global__ void solve_singles(const VALUE *__restrict__ K, int q, const Int *where,
                                         double *alpha, const double *gradient,
                                         const double *bounds, const double *diagonals,
                                         double goal, Int most, int *moved, double *change,
                                         double *report) {
  __shared__ WorkingSet set;
  Own own(set, q, where, alpha, gradient, bounds, diagonals);
  double enough = -1, gain = 0, curvature = NONE;
  Int step = 0;
  for (; step < most; ++step) {
    Best best{0, q}, worst{0, q};
#pragma unroll
    for (int c = 0; c < PER; ++c) {
      const double merit = key(own.f[c], own.up[c], own.down[c], own.diagonal[c], SINGLE);
      best = better(best, {merit, own.at(c)});
      if (merit < NONE)
        worst = better(worst, {own.f[c] < 0 ? own.f[c] : -own.f[c], own.at(c)});
    }
    best_of_block(best, worst, set.parts);
    if (best.index == q || -worst.value <= enough)
      break;
    if (enough < 0)
      enough = goal * -worst.value;
    const int i = best.index;
    VALUE ki[PER];
    own.read(K + Int(i) * q, ki);
    const double bend = set.diagonal[i], size = bend < 0 ? -bend : bend, f = set.f[i];
    const double eta = bend > TINY ? bend : TINY, slope = f < 0 ? -f : f;
    const double relative = bend / (size > TINY ? size : TINY);
    curvature = relative < curvature ? relative : curvature;
    const double up = room_up(set.a[i], set.bound[i]), down = room_down(set.a[i], set.bound[i]);
    const double room = f < 0 ? up : down;
    const double length = slope / eta < room ? slope / eta : room, t = f < 0 ? length : -length;
    gain += length * slope - 0.5 * length * length * eta;
    __syncthreads(); // all have read what changes now
#pragma unroll
    for (int c = 0; c < PER; ++c) {
      own.f[c] += t * double(ki[c]);
      if (own.at(c) < q)
        set.f[own.at(c)] = own.f[c];
      if (own.at(c) == i)
        own.move(set, c, t, length >= room);
    }
  }
  own.store(set, where, alpha, moved, change, report, step, gain, curvature);
}
