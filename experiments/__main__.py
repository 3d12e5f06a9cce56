"""All experiments, or those named: python -m experiments [NAME ...] [--full]."""

from experiments import (
    accuracy_and_time,
    bound,
    coefficient,
    early_stopping,
    k_and_t,
    losses,
    margins,
    minibatch,
    more_data,
    pegasos,
    rate_ladder,
    rates,
    relative_accuracy,
    single_precision,
    solver_table,
    steps_to_accuracy,
    subsamples,
)
from experiments.common import run

EXPERIMENTS = (
    pegasos, k_and_t, minibatch, solver_table, accuracy_and_time, subsamples, relative_accuracy,
    coefficient, single_precision, rates, rate_ladder, early_stopping, bound, steps_to_accuracy,
    more_data, losses, margins,
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(EXPERIMENTS))
