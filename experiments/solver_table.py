"""Training time, primal cost and test error of every solver, beside the published table.

Published on RCV1 (CCAT, 781,265 rows, lam = 1e-4) by Bottou, "Stochastic gradient SVMs" (2007): on
other data and another machine, so only the pattern can be compared. The picture is about its first
line, SVM-light, a decomposition method: `smo` with a linear kernel is one, and runs on twice as
many rows again and again until the next run would take longer than the cap (`--cap`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import DualCoordinateDescent, Epochs, Gap, KernelProblem, Smo, lam_to_C, solve
from bridle.solvers import solver_from
from bridle.study.plots import FAINT, curve

from experiments.common import (
    LAM,
    Clocked,
    Data,
    ProcessorSeconds,
    corpus,
    key_above,
    markdown,
    plain_ticks,
    told,
)

HEIGHT = 5.0
SEEN = (
    "Seconds over rows: smo rises from 0.4 s at 2,500 rows to 40 s at 40,000 and, continued, "
    "to thousands at 781,265, near the published point of SVM-light; dcd stays a thousand "
    "times below it."
)
PUBLISHED = (("SVM-light", 23_642.0, 0.2275, 6.02), ("SVM-perf", 66.0, 0.2278, 6.03),
             ("SGD", 1.4, 0.2275, 6.02))  # fmt: skip
# Every linear solver but qp and interior-point, which are for small data, and auto, one of these.
SOLVERS = ("dcd", "mpu", "svmsgd", "asgd", "sgd", "sgd-qn", "sgd-s", "sgd-m", "sgd-r", "pegasos",
           "ocas", "svmperf", "cg", "gd", "newton", "perceptron", "margin-perceptron",
           "norma")  # fmt: skip
GAP = 1e-2
MOST_SECONDS, MOST_EPOCHS = 20, 200
LEAST_ROWS, FULL = 2_500, 781_265
CONVERGE = ("dcd", "sgd-s", "sgd-m", "ocas", "svmperf")


def measure(data: Data) -> dict[str, Any]:
    problem, best = data.problem(), data.optimum
    rows = []
    for name in SOLVERS:
        clocked = Clocked(solver_from(name))
        stop = Gap(GAP) | Epochs(MOST_EPOCHS) | ProcessorSeconds(clocked, MOST_SECONDS)
        found = solve(problem, clocked, stop=stop)
        rows.append({
            "solver": name, "seconds": sum(clocked.spent),
            "cost": problem.lam * found.certificate.primal,
            "relative_gap": found.certificate.relative_gap,
            "test_error": data.test_error(found.w), "status": found.status.value,
        })  # fmt: skip
    return {
        "data": data.name, "optimum": best, "gap": GAP, "solvers": rows,
        "decomposition": decomposition(data), "cap": data.cap,
    }  # fmt: skip


def decomposition(data: Data) -> list[dict[str, float]]:
    """Seconds of smo on growing numbers of rows, those of dcd beside them."""
    rows, found = LEAST_ROWS, []
    while not found or _next_run(found) <= data.cap:
        some = data if data.own else corpus(rows, 0)
        if rows > len(some.y):
            break
        X, y, C = some.X[:rows], some.y[:rows], lam_to_C(LAM, rows)
        kernel = KernelProblem(X, y, C, kernel="linear", n_threads=1)
        smo, dcd = Clocked(Smo()), Clocked(DualCoordinateDescent())
        solve(kernel, smo, stop=Gap(GAP))
        solve(some.problem(LAM, rows), dcd, stop=Gap(GAP))
        found.append({"rows": rows, "smo": sum(smo.spent), "dcd": sum(dcd.spent)})
        rows *= 2
    return found


def _growth(found: list[dict[str, float]]) -> float:
    """Seconds grow as this power of the rows: of the last three runs."""
    last = found[-3:]
    if len(last) < 2:
        return 2.0
    return float(np.polyfit(*(np.log([run[v] for run in last]) for v in ("rows", "smo")), 1)[0])


def _next_run(found: list[dict[str, float]]) -> float:
    return found[-1]["smo"] * 2 ** _growth(found)


def at_full_size(found: list[dict[str, float]]) -> float:
    """Seconds of smo on FULL rows, if they grow on as they did."""
    return found[-1]["smo"] * (FULL / found[-1]["rows"]) ** _growth(found)


def _reached(n: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in n["solvers"] if row["status"] == "converged"]


def claim(n: dict[str, Any]) -> str:
    errors = [100 * row["test_error"] for row in _reached(n)]
    low, high = min(errors, default=None), max(errors, default=None)
    return (
        f"{len(errors)} of {len(n['solvers'])} solvers reach a certified gap of {n['gap']:.0%} "
        f"within {MOST_SECONDS} s and {MOST_EPOCHS} epochs, {', '.join(CONVERGE)} among them; "
        f"their costs agree within that, and their test errors lie between {told(low, '.2f')}% and "
        f"{told(high, '.2f')}%. The perceptrons and norma do not tend to the optimum. "
        f"{_about_smo(n['decomposition'])} ({n['data']})."
    )


def _about_smo(found: list[dict[str, float]]) -> str:
    if not found:
        return f"smo needs {LEAST_ROWS:,} rows to be judged"
    last = found[-1]
    return (
        f"On {last['rows']:,} rows smo takes {last['smo']:.3g} s and dcd {last['dcd']:.2g}; "
        f"growing as rows^{_growth(found):.2f}, smo would take {at_full_size(found):,.0f} s on "
        f"{FULL:,}, where SVM-light took {PUBLISHED[0][1]:,.0f}"
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
        and bool(n["decomposition"])
    )  # fmt: skip


def table(n: dict[str, Any]) -> str:
    """The published lines first."""
    head = ["", "training time (s)", "primal cost", "certified gap", "test error"]
    body = [["**published, RCV1**", "", "", "", ""]]
    body += [[s, f"{t:,g}", f"{c:.4f}", "", f"{e:.2f}%"] for s, t, c, e in PUBLISHED]
    body += [[f"**{n['data']}**", "", "", "", ""]]
    for row in sorted(n["solvers"], key=lambda r: r["seconds"]):
        body.append([
            f"`{row['solver']}`", f"{row['seconds']:.3g}", f"{row['cost']:.4f}",
            f"{row['relative_gap']:.1e}", f"{100 * row['test_error']:.2f}%",
        ])  # fmt: skip
    return markdown(head, body)


def draw(n: dict[str, Any], figure: Any) -> None:
    ax = figure.subplots()
    found = n["decomposition"]
    rows = [run["rows"] for run in found]
    for style, name in enumerate(("smo", "dcd")):
        curve(ax, rows, [run[name] for run in found], style, f"{name}, measured")
    if found:
        ends = ([rows[-1], FULL], [found[-1]["smo"], at_full_size(found)])
        ax.plot(*ends, color=FAINT, linestyle="--", label=f"rows^{_growth(found):.2f}")
    for style, (name, seconds, _, _) in enumerate(PUBLISHED, 2):
        curve(ax, [FULL], [seconds], style, f"{name}, published")
    ax.set(xscale="log", yscale="log", xlabel="rows", ylabel=f"seconds to a gap of {n['gap']:.0%}")
    plain_ticks(ax.xaxis, [*rows[::2], FULL])
    plain_ticks(ax.yaxis, [10.0**k for k in range(-3, 6)])
    ax.margins(x=0.08)
    key_above(figure, ax)


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
