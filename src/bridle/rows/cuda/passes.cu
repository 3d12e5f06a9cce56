// Passes over rows in float64, the same bits every time: scores, and sums a_i x_i in fixed point.
//
// A sum of whole numbers does not depend on the order in which they are added, so atomics may add
// a_i x_ij / quantum, rounded to whole numbers. The quantum is so large that no sum overflows.
// Features that most rows have would make all of them wait for each other: there are several copies
// of the sums, and each block adds to one.

// What may not be: 1 a value that is not finite, 2 a column out of bounds or offsets that fall,
// 4 columns that are not in order. Writes |x_i|^2 and, of each block, the longest row, its entries
// and the largest |x_ij|.
extern "C" __global__ void scan(MATRIX, Int n_rows, Int n_entries, double constant,
                                double *squared_norms, int *wrong, double *largest, Int *most) {
  const Matrix rows = THE_MATRIX;
  double top = 0;
  Int fullest = 0;
  int found = 0;
  for (Int i = group(); i < n_rows; i += groups()) {
    const Int begin = rows.begin(i), end = rows.end(i);
    if (begin < 0 || end < begin || end > n_entries) {
      found |= 2;
      continue;
    }
    double sum = 0;
    for (Int k = begin + lane(); k < end; k += LANES) {
      const double x = values[k];
      const Int column = rows.column(k, i);
      if (column < 0 || column >= n_features)
        found |= 2;
      if (k > begin && column <= rows.column(k - 1, i))
        found |= 4;
      if (!(x - x == 0))
        found |= 1;
      sum += x * x;
      top = x > top ? x : -x > top ? -x : top;
    }
    sum = group_sum(sum) + constant * constant;
    if (lane() == 0)
      squared_norms[i] = sum;
    fullest = end - begin > fullest ? end - begin : fullest;
  }
  if (found)
    atomicOr(wrong, found);
  // Positive numbers are in the order of their bits.
  if (top > 0)
    atomicMax((unsigned long long *)largest, (unsigned long long)__double_as_longlong(top));
  if (lane() == 0 && fullest > 0)
    atomicMax((unsigned long long *)most, (unsigned long long)fullest);
}

// scores_i = w.x_i; sums_j += a_i x_ij / quantum of rows whose a_i is not 0. Either may be left out.
extern "C" __global__ void look(MATRIX, Int n_rows, double constant, const double *w,
                                double *scores, const double *a, double per_quantum,
                                Int n_copies, unsigned long long *sums) {
  const Matrix rows = THE_MATRIX;
  if (sums)
    sums += blockIdx.x % n_copies * n_features;
  for (Int i = group(); i < n_rows; i += groups()) {
    const Int begin = rows.begin(i), end = rows.end(i);
    const double times = a ? a[i] : 0;
    double score = 0;
    for (Int k = begin + lane(); k < end; k += LANES) {
      const Int column = rows.column(k, i);
      const double x = values[k];
      if (w)
        score += w[column] * x;
      if (times != 0)
        atomicAdd(sums + column, (unsigned long long)__double2ll_rn(times * x * per_quantum));
    }
    if (w) {
      score = group_sum(score);
      if (lane() == 0)
        scores[i] = score + constant * w[n_features];
    }
  }
}

// The same sums of dense rows: each thread has a feature and every so many-th row, so that all is
// added in a fixed order. parts: a row for each group of `width` threads.
extern "C" __global__ void combine_dense(MATRIX, Int n_rows, const double *a, Int width,
                                         double *parts) {
  const Int slots = threads() / width, slot = thread() / width;
  if (slot >= slots)
    return;
  for (Int j = thread() % width; j < n_features; j += width) {
    double sum = 0;
    for (Int i = slot; i < n_rows; i += slots)
      sum += a[i] * double(values[i * n_features + j]);
    parts[slot * n_features + j] = sum;
  }
}

// sums_j += the sum over the rows of parts; a block has a feature.
extern "C" __global__ void add_parts(const double *parts, Int n_parts, Int n_features,
                                     double *sums) {
  for (Int j = blockIdx.x; j < n_features; j += gridDim.x) {
    double sum = 0;
    for (Int k = threadIdx.x; k < n_parts; k += blockDim.x)
      sum += parts[k * n_features + j];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
      sums[j] += sum;
  }
}

// Some rows as dense ones, each times a factor, with the constant feature last.
extern "C" __global__ void spread(MATRIX, const Int *chosen, Int n_chosen, double constant,
                                  const double *factors, double *out) {
  const Matrix rows = THE_MATRIX;
  const Int width = n_features + 1;
  for (Int k = group(); k < n_chosen; k += groups()) {
    const Int i = chosen[k];
    const double factor = factors[i];
    for (Int entry = rows.begin(i) + lane(); entry < rows.end(i); entry += LANES)
      out[k * width + rows.column(entry, i)] = factor * values[entry];
    if (lane() == 0)
      out[k * width + n_features] = factor * constant;
  }
}

// For each row the sum of x_ij^2 times the share of rows that have feature j.
extern "C" __global__ void count_columns(MATRIX, Int n_rows, unsigned *counts) {
  const Matrix rows = THE_MATRIX;
  for (Int i = group(); i < n_rows; i += groups())
    for (Int k = rows.begin(i) + lane(); k < rows.end(i); k += LANES)
      atomicAdd(counts + rows.column(k, i), 1u);
}

extern "C" __global__ void crowding(MATRIX, Int n_rows, const unsigned *counts, double per_row,
                                    VALUE *out) {
  const Matrix rows = THE_MATRIX;
  for (Int i = group(); i < n_rows; i += groups()) {
    double sum = 0;
    for (Int k = rows.begin(i) + lane(); k < rows.end(i); k += LANES) {
      const double x = values[k];
      sum += x * x * (counts[rows.column(k, i)] * per_row);
    }
    sum = group_sum(sum);
    if (lane() == 0)
      out[i] = VALUE(sum);
  }
}
