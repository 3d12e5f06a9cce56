"""All experiments, or those named: python -m experiments [NAME ...] [--full]."""

from experiments import (
    bound,
    k_and_t,
    losses,
    margins,
    pegasos,
    rates,
    relative_accuracy,
    solver_table,
)
from experiments.common import run

EXPERIMENTS = (pegasos, k_and_t, solver_table, rates, relative_accuracy, bound, losses, margins)

if __name__ == "__main__":
    raise SystemExit(run(EXPERIMENTS))
