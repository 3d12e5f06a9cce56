// What dual coordinate descent says of its work.
#pragma once

#include <cstdint>

namespace bridle {

struct DcdEpoch {
  int64_t visits; // rows looked at
  int64_t active; // rows left after shrinking
  double gap;     // an estimate of P - D: the rows' parts, each taken when it was visited
  double dual;    // D(alpha) after the epoch, from the running w
  bool whole;     // the epoch visits every row
  bool finished;  // else all this is of the part of the epoch that is over
};

// The gap as some rows, drawn at random, show it: P - D = sum_i gap_i where w = w(alpha).
struct DcdSample {
  double gap, error; // and its standard error
};

// The same of one of many parts: of its rows in play, and of those that rest.
struct DcdLook {
  DcdSample active, resting;
};

// One of many parts of a problem, the other rows being elsewhere: what a visit to some of its rows
// saw, ...
struct DcdShare {
  int64_t visits, inside; // rows looked at; those strictly between their bounds
  double gap;             // sum of the rows' parts of P - D, when visited
  double balance;         // change of sum alpha y
  bool finished, whole;   // this ends an epoch; which visited every row of the part
};

// ... and how far its rows are from where they were at the last `keep`, in the parts of the dual.
struct DcdMove {
  double separable, balance; // changes of sum alpha [- 1/2 sum D_ii alpha^2], of sum alpha y
  double curvature;          // sum D_ii d_alpha_i^2
  int64_t rows;
};

} // namespace bridle
