// Sums over the numbers of rows, in float64 and in a fixed order: each block writes its parts, a
// row of `parts` for each sum. SQUARED is defined for the squared hinge.

__device__ inline void put(double *parts, Int which, double value) {
  const double sum = block_sum(value);
  if (threadIdx.x == 0)
    parts[which * gridDim.x + blockIdx.x] = sum;
}

__device__ inline double loss_at(double p) {
  const double slack = 1 - p > 0 ? 1 - p : 0;
#ifdef SQUARED
  return slack * slack;
#else
  return slack;
#endif
}

// Sums: |a_i| and a_i.
extern "C" __global__ void sizes(Int n_rows, const double *a, double *parts) {
  double size = 0, sum = 0;
  for (Int i = thread(); i < n_rows; i += threads()) {
    size += fabs(a[i]);
    sum += a[i];
  }
  put(parts, 0, size);
  put(parts, 1, sum);
}

// alpha: `own` moved into its box, and each class times its scale. Sums: alpha, alpha y,
// alpha^2 / C, how far alpha was moved into its box, and how far altogether.
extern "C" __global__ void settle(COSTS, Int n_rows, const double *own, double up, double down,
                                  double *alpha, double *parts) {
  const Costs of = THE_COSTS;
  double sum = 0, balance = 0, curvature = 0, moved = 0, shifted = 0;
  for (Int i = thread(); i < n_rows; i += threads()) {
    const double y = of.y(i), cost = of.cost(i), bound = of.bound(i);
    const double before = own ? own[i] : 0;
    const double inside = before > 0 ? (before < bound ? before : bound) : 0;
    const double after = inside * (y > 0 ? up : down);
    alpha[i] = after;
    sum += after;
    balance += y * after;
    if (cost > 0)
      curvature += after * (after / cost);
    moved += fabs(inside - before);
    shifted += fabs(after - before);
  }
  put(parts, 0, sum);
  put(parts, 1, balance);
  put(parts, 2, curvature);
  put(parts, 3, moved);
  put(parts, 4, shifted);
}

// Sums: C_i loss at the margins less the error, and at the margins and the error; rows on the wrong
// side. b is added to the scores.
extern "C" __global__ void losses(COSTS, Int n_rows, const double *scores, double b, double error,
                                  double *parts) {
  const Costs of = THE_COSTS;
  double high = 0, low = 0, wrong = 0;
  for (Int i = thread(); i < n_rows; i += threads()) {
    const double p = of.y(i) * (scores[i] + b), cost = of.cost(i);
    high += cost * loss_at(p - error);
    low += cost * loss_at(p + error);
    wrong += (scores[i] + b > 0) != (of.y(i) > 0);
  }
  put(parts, 0, high);
  put(parts, 1, low);
  put(parts, 2, wrong);
}

// The slope of sum C_i loss(y_i (s_i + b)) in b at evenly spaced b.
extern "C" __global__ void bias_slopes(COSTS, Int n_rows, const double *scores, double first,
                                       double width, Int n, double *parts) {
  const Costs of = THE_COSTS;
  for (Int k = 0; k < n; ++k) {
    double slope = 0;
    for (Int i = thread(); i < n_rows; i += threads()) {
      const double y = of.y(i), slack = 1 - y * (scores[i] + (first + k * width));
      if (slack > 0)
#ifdef SQUARED
        slope -= 2 * of.cost(i) * y * slack;
#else
        slope -= of.cost(i) * y;
#endif
    }
    put(parts, k, slope);
  }
}

// The least and the largest breakpoint y_i - s_i of rows that cost something.
extern "C" __global__ void breakpoints(COSTS, Int n_rows, const double *scores, double *least,
                                       double *largest) {
  const Costs of = THE_COSTS;
  double low = INFINITE, high = -INFINITE;
  for (Int i = thread(); i < n_rows; i += threads()) {
    const double at = of.y(i) - scores[i];
    if (of.cost(i) > 0) {
      low = at < low ? at : low;
      high = at > high ? at : high;
    }
  }
  __shared__ double lows[1024], highs[1024];
  lows[threadIdx.x] = low;
  highs[threadIdx.x] = high;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 1; k < int(blockDim.x); ++k) {
      low = lows[k] < low ? lows[k] : low;
      high = highs[k] > high ? highs[k] : high;
    }
    least[blockIdx.x] = low;
    largest[blockIdx.x] = high;
  }
}

// a_i(t) = clip(alpha_i + sigma_i (1 - p_i - t e_i), 0, upper_i). Sums: a_i(t) e_i, and over the
// rows that are not clipped sigma e^2, sigma e y and sigma.
extern "C" __global__ void clipped(Int n_rows, const double *p, const double *e, double t,
                                   const double *alpha, const double *sigma, const double *upper,
                                   const double *y, double *parts) {
  double sum = 0, curvature = 0, cross = 0, weight = 0;
  for (Int i = thread(); i < n_rows; i += threads()) {
    const double u = alpha[i] + sigma[i] * (1 - p[i] - t * e[i]);
    if (u <= 0)
      continue;
    if (u < upper[i]) {
      sum += u * e[i];
      curvature += sigma[i] * e[i] * e[i];
      cross += sigma[i] * e[i] * y[i];
      weight += sigma[i];
    } else {
      sum += upper[i] * e[i];
    }
  }
  put(parts, 0, sum);
  put(parts, 1, curvature);
  put(parts, 2, cross);
  put(parts, 3, weight);
}
