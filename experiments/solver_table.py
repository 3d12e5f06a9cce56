"""Training time, primal cost and test error of every solver, beside the published table.

Published on RCV1 (CCAT, 781,265 rows, lam = 1e-4) by Bottou, "Stochastic gradient SVMs" (2007): on
other data and another machine, so only the pattern can be compared.
"""

from __future__ import annotations

import time
from typing import Any

from bridle import Epochs, Gap, Seconds, solve

from experiments.common import Data, told

SIZE = (11, 8.6)
PUBLISHED = (("SVM-light", 23_642.0, 0.2275, 6.02), ("SVM-perf", 66.0, 0.2278, 6.03),
             ("SGD", 1.4, 0.2275, 6.02))  # fmt: skip
# Every linear solver but qp and interior-point, which are for small data, and auto, one of these.
SOLVERS = ("dcd", "mpu", "svmsgd", "asgd", "sgd", "sgd-qn", "sgd-s", "sgd-m", "sgd-r", "pegasos",
           "ocas", "svmperf", "cg", "gd", "newton", "perceptron", "margin-perceptron",
           "norma")  # fmt: skip
GAP = 1e-2
MOST_SECONDS, MOST_EPOCHS = 20, 200
CONVERGE = ("dcd", "sgd-s", "sgd-m", "ocas", "svmperf")


def measure(data: Data) -> dict[str, Any]:
    problem, best = data.problem(), data.optimum
    rows = []
    for name in SOLVERS:
        began = time.process_time()
        found = solve(problem, name, stop=Gap(GAP) | Epochs(MOST_EPOCHS) | Seconds(MOST_SECONDS))
        rows.append({
            "solver": name, "seconds": found.trace[-1].seconds_solver,
            "cpu_with_certificates": time.process_time() - began,
            "cost": problem.lam * found.certificate.primal,
            "relative_gap": found.certificate.relative_gap,
            "test_error": data.test_error(found.w), "status": found.status.value,
        })  # fmt: skip
    return {"data": data.name, "optimum": best, "gap": GAP, "solvers": rows}


def _reached(n: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in n["solvers"] if row["status"] == "converged"]


def claim(n: dict[str, Any]) -> str:
    errors = [100 * row["test_error"] for row in _reached(n)]
    low, high = min(errors, default=None), max(errors, default=None)
    return (
        f"{len(errors)} of {len(n['solvers'])} solvers reach a certified gap of {n['gap']:.0%} "
        f"within {MOST_SECONDS} s and {MOST_EPOCHS} epochs, {', '.join(CONVERGE)} among them; "
        f"their costs agree within that, and their test errors lie between {told(low, '.2f')}% and "
        f"{told(high, '.2f')}%. The perceptrons and norma do not tend to the optimum."
    )


def holds(n: dict[str, Any]) -> bool:
    reached = _reached(n)
    if not reached:
        return False
    errors = [row["test_error"] for row in reached]
    close = all(row["cost"] <= n["optimum"] * (1 + 1.02 * n["gap"]) for row in reached)
    return (
        close and max(errors) - min(errors) < 0.01
        and set(CONVERGE) <= {row["solver"] for row in reached}
    )  # fmt: skip


def draw(n: dict[str, Any], figure: Any) -> None:
    ax = figure.subplots()
    ax.axis("off")
    head = ["", "training time (s)", "primal cost", "certified gap", "test error"]
    body = [["published, on RCV1, other machines", "", "", "", ""]]
    body += [[f"  {s}", f"{t:,g}", f"{c:.4f}", "", f"{e:.2f}%"] for s, t, c, e in PUBLISHED]
    body += [[f"measured here: {n['data']}", "", "", "", ""]]
    for row in sorted(n["solvers"], key=lambda r: r["seconds"]):
        body.append([
            f"  {row['solver']}", f"{row['seconds']:.3g}", f"{row['cost']:.4f}",
            f"{row['relative_gap']:.1e}", f"{100 * row['test_error']:.2f}%",
        ])  # fmt: skip
    made = ax.table(body, colLabels=head, colWidths=[0.4, 0.16, 0.14, 0.14, 0.14], loc="center")
    made.auto_set_font_size(False)
    made.set_fontsize(12)
    made.scale(1, 1.42)
    for (row, column), cell in made.get_celld().items():
        cell.set_edgecolor("0.85")
        cell.visible_edges = "B"
        cell.get_text().set_horizontalalignment("left" if column == 0 else "right")
        if row == 0 or (row - 1 in (0, len(PUBLISHED) + 1)):
            cell.get_text().set_fontweight("bold")


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
