// Dual coordinate ascent by many groups of threads at once, each with a row:
//
//   max_alpha  sum alpha_i [- alpha_i^2 / (4 C_i)] - 1/2 |w|^2 - ...,   w = sum alpha_i y_i x_i
//
// A group gathers w at its row, takes the exact step of that row and adds it to w with atomics,
// while others do the same: every step is added, but not every step has seen all of those before
// it. With FROZEN defined w stays as it is for the launch and steps are added to fixed-point sums,
// so that the result does not depend on who comes first.
//
// SQUARED is defined for the squared hinge. The bias is held near a centre, as on a processor (see
// core/linear/proximal_bias.hpp): b = response (scale (balance + change) + centre / sigma).

#define KEPT 4 // entries of a row that each lane keeps between gathering and adding

struct Seen {
  double gap, gradients, moved, inside, gain, visits, rested;
};

__device__ inline VALUE gap_at(VALUE p, VALUE alpha, VALUE cost) {
  const VALUE slack = 1 - p, paid = slack > 0 ? slack : 0;
#ifdef SQUARED
  return cost * paid * paid + alpha * alpha / (4 * cost) - alpha * slack;
#else
  return cost * paid - alpha * slack;
#endif
}

// The numbers of a row, and of its entries those that each lane keeps.
struct Row {
  Int i, begin;
  int length; // 0: nothing is to be done
  VALUE alpha, squared_norm;
};

struct Entries {
  VALUE x[KEPT];
  COLUMN column[KEPT]; // -1: there is none
};

// The part of the rows that this launch visits: chunks of neighbours among the active rows, in the
// order (factor k + shift) mod n_chunks.
struct Order {
  const Int *active; // their numbers; null: all rows
  Int n_active, chunk, n_chunks, factor, shift;

  __device__ Int chunk_of(Int turn) const { return (turn * factor + shift) % n_chunks; }
};

extern "C" __global__ void visit(
    MATRIX, COSTS, Int first_row, const Int *active, Int n_active, Int chunk, Int n_chunks,
    Int factor, Int shift, Int begin_turn, Int end_turn, Int n_groups, unsigned long long *ticket,
    const double *squared_norms, double constant_squared, const VALUE *crowd, double caution,
    VALUE *alpha, unsigned char *resting, VALUE *w, unsigned long long *sums, double per_quantum,
    double *change, double balance, double response, double pull, double rows_in_all,
    double rows_before, double rows_seen, double shrink_beyond, double *parts) {
  const Matrix rows = THE_MATRIX;
  const Costs of = THE_COSTS;
  const Order order{active, n_active, chunk, n_chunks, factor, shift};
  const bool stochastic = rows_before >= 0;
  // A group reads the numbers of LANES rows at once, a lane of each, and passes them on in turn: rows
  // may be anywhere, and to look for one after the other would take most of the time.
  const auto numbers = [&](Int at) {
    Row own{0, 0, -1, 0, 0};
    if (at >= n_active)
      return own;
    own.i = active ? active[at] : first_row + at;
    if (resting[own.i])
      return own;
    const Int row = own.i - first_row;
    own.begin = rows.begin(row);
    own.length = int(rows.end(row) - own.begin);
    own.alpha = alpha[own.i];
    own.squared_norm = VALUE(squared_norms[own.i] - constant_squared);
    return own;
  };
  const auto passed_on = [&](const Row &row, int from) {
    return Row{from_lane(row.i, from), from_lane(row.begin, from), from_lane(row.length, from),
               from_lane(row.alpha, from), from_lane(row.squared_norm, from)};
  };
  const auto entries = [&](const Row &row) {
    Entries own;
#pragma unroll
    for (int r = 0; r < KEPT; ++r) {
      const int k = lane() + r * LANES;
      own.column[r] = -1;
      if (k < row.length) {
        own.column[r] = rows.column(row.begin + k, row.i - first_row);
        own.x[r] = values[row.begin + k];
      }
    }
    return own;
  };
  Seen seen{0, 0, 0, 0, 0, 0, 0};
  Int turn = begin_turn + group();
  for (;; turn += groups()) {
#ifndef FROZEN
    if (group() >= n_groups)
      break;
    unsigned long long drawn = 0;
    if (lane() == 0)
      drawn = atomicAdd(ticket, 1ull);
    turn = begin_turn + Int(from_lane(drawn, 0));
#endif
    if (turn >= end_turn)
      break;
    const Int place = order.chunk_of(turn) * chunk;
    const Int stop = place + chunk < n_active ? place + chunk : n_active;
#ifdef FROZEN
    const double before_us = rows_seen;
#else
    const double before_us = rows_seen + double(turn) * chunk;
#endif
    const double scale =
        stochastic ? (rows_in_all + rows_before) / (before_us + rows_before) : 1.0;
    const bool counts = !stochastic || 2 * before_us >= rows_in_all;
    Row mine, next_row;
    Entries next_entries;
    for (Int at = place; at < stop; ++at) {
      const int turn_of = int((at - place) % LANES);
      if (turn_of == 0) {
        mine = numbers(at + lane() < stop ? at + lane() : n_active);
        next_row = passed_on(mine, 0);
        next_entries = entries(next_row);
      }
      const Row now = next_row;
      const Entries own = next_entries;
      // The next row's entries come while this one is looked at.
      if (turn_of + 1 < LANES) {
        next_row = passed_on(mine, turn_of + 1);
        next_entries = entries(next_row);
      }
      if (now.length < 0)
        continue;
      const Int i = now.i, row = i - first_row, begin = now.begin, end = begin + now.length;
      // Gather.
      VALUE score = 0;
#pragma unroll
      for (int r = 0; r < KEPT; ++r)
        if (own.column[r] >= 0)
          score += __ldcg(w + own.column[r]) * own.x[r];
      for (Int k = begin + lane() + KEPT * LANES; k < end; k += LANES)
        score += __ldcg(w + rows.column(k, row)) * values[k];
      score = group_sum(score);
      // The step.
      const VALUE y = of.y(i), cost = of.cost(i), upper = of.bound(i), a = now.alpha;
#ifdef SQUARED
      const VALUE curvature = 1 / (2 * cost);
#else
      const VALUE curvature = 0;
#endif
      const VALUE b =
          response > 0 ? VALUE(response * (scale * (balance + __ldcg(change)) + pull)) : VALUE(0);
      const VALUE p = y * (VALUE(scale) * score + b);
      const VALUE gradient = p - 1 + a * curvature;
      if (counts)
        seen.gap += gap_at(p, a, cost);
      seen.visits += 1;
      VALUE projected = gradient;
      if (a <= 0) {
        if (gradient > VALUE(shrink_beyond)) {
          if (lane() == 0)
            resting[i] = 1;
          seen.rested += 1;
          continue;
        }
        projected = gradient < 0 ? gradient : 0;
      } else if (a >= upper) {
        if (gradient < -VALUE(shrink_beyond)) {
          if (lane() == 0)
            resting[i] = 1;
          seen.rested += 1;
          continue;
        }
        projected = gradient > 0 ? gradient : 0;
      }
      VALUE next = a;
      if (projected != 0) {
        seen.gradients += double(projected) * projected;
        seen.moved += 1;
        const VALUE apart = now.squared_norm + VALUE(response);
        const VALUE together = crowd ? apart + VALUE(caution) * (crowd[i] + VALUE(response)) : apart;
        const VALUE denominator = VALUE(scale) * together + curvature;
        const VALUE target =
            denominator > 0 ? a - gradient / denominator : (upper - upper == 0 ? upper : a);
        next = target > 0 ? (target < upper ? target : upper) : 0;
        const VALUE step = next - a, delta = step * y;
        if (step != 0) {
          seen.gain -= double(step) * (gradient + VALUE(0.5) * step * (apart + curvature));
#pragma unroll
          for (int r = 0; r < KEPT; ++r)
            if (own.column[r] >= 0) {
#ifdef FROZEN
              const double part = double(delta) * own.x[r];
              atomicAdd(sums + own.column[r],
                        (unsigned long long)__double2ll_rn(part * per_quantum));
#else
              atomicAdd(w + own.column[r], delta * own.x[r]);
#endif
            }
          for (Int k = begin + lane() + KEPT * LANES; k < end; k += LANES) {
#ifdef FROZEN
            const double part = double(delta) * values[k];
            atomicAdd(sums + rows.column(k, row),
                      (unsigned long long)__double2ll_rn(part * per_quantum));
#else
            atomicAdd(w + rows.column(k, row), delta * values[k]);
#endif
          }
          if (lane() == 0) {
            alpha[i] = next;
#ifdef FROZEN
            if (response > 0)
              atomicAdd(sums + n_features,
                        (unsigned long long)__double2ll_rn(double(delta) * per_quantum));
#else
            if (response > 0)
              atomicAdd(change, double(delta));
#endif
          }
        }
      }
      seen.inside += next > 0 && next < upper;
    }
  }
  // Each block has its own sums; they go on from launch to launch.
  const double all[] = {seen.gap,  seen.gradients, seen.moved, seen.inside,
                        seen.gain, seen.visits,    seen.rested};
  for (int k = 0; k < 7; ++k) {
    const double sum = block_sum(lane() == 0 ? all[k] : 0);
    if (threadIdx.x == 0)
      parts[k * Int(gridDim.x) + blockIdx.x] += sum;
  }
}

// After a launch with frozen weights: what was added, in the precision of the weights. The last
// sum is that of the bias.
extern "C" __global__ void thaw(Int n_features, const unsigned long long *sums, double quantum,
                                VALUE *w, double *change) {
  for (Int j = thread(); j < n_features; j += threads())
    w[j] = VALUE(double((long long)sums[j]) * quantum);
  if (thread() == 0)
    *change = double((long long)sums[n_features]) * quantum;
}

// Sums: alpha [- alpha^2 / (4 C)], alpha y, and |w|^2.
extern "C" __global__ void dual_parts(COSTS, Int n_rows, const VALUE *alpha, Int n_features,
                                      const VALUE *w, double *parts) {
  const Costs of = THE_COSTS;
  double separable = 0, balance = 0, squared = 0;
  for (Int i = thread(); i < n_rows; i += threads()) {
    const double a = alpha[i];
    separable += a;
#ifdef SQUARED
    if (a > 0)
      separable -= a * a / (4 * of.cost(i));
#endif
    balance += of.y(i) * a;
  }
  for (Int j = thread(); j < n_features; j += threads())
    squared += double(w[j]) * w[j];
  const double all[] = {separable, balance, squared};
  for (int k = 0; k < 3; ++k) {
    const double sum = block_sum(all[k]);
    if (threadIdx.x == 0)
      parts[k * Int(gridDim.x) + blockIdx.x] = sum;
  }
}
