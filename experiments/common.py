"""What the experiments share: their data, the course of a run, pictures with a claim below."""

from __future__ import annotations

import argparse
import json
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from benchmarks.pictures import drawn
from bridle import (
    Epochs,
    Gap,
    LinearProblem,
    Seconds,
    Solver,
    Suboptimality,
    _core,
    lam_to_C,
    solve,
)
from bridle.solving.stopping import Progress, Status, Stop, Verdict
from bridle.study.plots import FAINT

LAM = 1e-4  # the lam of the published numbers on RCV1


@dataclass(frozen=True)
class Data:
    """Rows to train and to test on, labels -1 and +1."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    own: bool = False  # the user's, not generated
    cap: float = 60.0  # processor seconds that one run of a method that does not scale may take

    def problem(self, lam: float = LAM, rows: int | None = None) -> LinearProblem:
        """lam/2 |w|^2 + mean hinge, without a bias, on the first rows."""
        n = len(self.y) if rows is None else rows
        return LinearProblem(self.X[:n], self.y[:n], lam_to_C(lam, n), n_threads=1)

    def test_error(self, w: np.ndarray) -> float:
        return float(np.mean(self.y_test * (self.X_test @ w) <= 0))

    @cached_property
    def optimum(self) -> float:
        """The least value of lam/2 |w|^2 + mean hinge at LAM, to a millionth."""
        return optimum(self.problem())


def optimum(problem: LinearProblem, gap: float = 1e-6) -> float:
    """A value of f = lam P that is certified to be within `gap` of the least."""
    found = solve(problem, stop=Gap(gap) | Seconds(300))
    if not found.converged:
        raise RuntimeError(f"no reference value: {found.message}")
    return problem.lam * found.certificate.primal


def corpus(rows: int, test_rows: int, seed: int = 0, cap: float = Data.cap) -> Data:
    """A corpus of RCV1's shape."""
    from bridle.data import make_corpus

    X, y = make_corpus(rows + test_rows, seed=seed)
    name = f"generated corpus, {rows:,} rows"
    return Data(name, X[:rows], y[:rows], X[rows:], y[rows:], cap=cap)


def from_files(train: Path, test: Path, cap: float) -> Data:
    from bridle.data import read_svmlight_and_base

    X, y, base = read_svmlight_and_base(train)
    X_test, y_test, _ = read_svmlight_and_base(test, zero_based=base)
    labels = np.unique(y)
    if len(labels) != 2 or not np.isin(y_test, labels).all():
        raise SystemExit(f"{train} and {test} must have the same two labels")
    X_test.resize((X_test.shape[0], X.shape[1]))
    signs = [np.where(v == labels[1], 1.0, -1.0) for v in (y, y_test)]
    name = f"{train.name}, {len(y):,} rows"
    return Data(name, X, signs[0], X_test, signs[1], own=True, cap=cap)


def course(
    data: Data, problem: LinearProblem, solver: Solver, steps: Sequence[int], seed: int = 0
) -> dict[str, list[float]]:
    """The solver after so many steps each: f = lam P of its present w, CPU time, test error."""
    checks = iter(sorted(set(steps)))
    goal = next(checks)
    iterates = solver.iterates(problem, rng=_core.Rng(seed), pace=lambda step, rows=1: goal - step)
    found: dict[str, list[float]] = {"step": [], "seconds": [], "objective": [], "test_error": []}
    spent, began = 0.0, time.process_time()
    for it in iterates:
        if it.step < goal:
            continue
        spent += time.process_time() - began
        found["step"].append(it.step)
        found["seconds"].append(spent)
        found["objective"].append(problem.lam * problem.primal(it.w, it.b))
        found["test_error"].append(data.test_error(it.w))
        following = next(checks, None)
        if following is None:
            break
        goal = following
        began = time.process_time()
    return found


@dataclass(frozen=True)
class Clocked(Solver):
    """A solver, and the processor time that it takes: certificates and other work do not count."""

    solver: Solver
    spent: list[float] = field(default_factory=list)

    name: ClassVar[str] = "clocked"

    def check(self, problem: Any) -> None:
        self.solver.check(problem)

    def precision(self, problem: Any) -> np.dtype[Any]:
        return self.solver.precision(problem)

    def iterates(self, problem: Any, **how: Any) -> Any:
        iterates, answer = self.solver.iterates(problem, **how), None
        while True:
            began = time.process_time()
            try:
                found = iterates.send(answer)
            except StopIteration:
                return
            self.spent.append(time.process_time() - began)
            answer = yield found


@dataclass(frozen=True)
class ProcessorSeconds(Stop):
    """Stop after so much processor time of a clocked solver."""

    clock: Clocked
    most: float

    def verdict(self, progress: Progress) -> Verdict | None:
        spent = sum(self.clock.spent)
        return Verdict(Status.BUDGET, f"after {spent:.3g} s") if spent >= self.most else None


def to_accuracy(
    problem: LinearProblem, solver: Solver, best: float, tol: float, caps: dict[str, float]
) -> dict[str, float] | None:  # fmt: skip
    """Epochs and processor seconds until P <= (1 + tol) best; None if it did not get there."""
    clocked = Clocked(solver)
    stop = Suboptimality(tol, optimum=best) | Epochs(caps["epochs"])
    stop = stop | ProcessorSeconds(clocked, caps["seconds"])
    found = solve(problem, clocked, stop=stop, keep="final")
    if not found.converged:
        return None
    return {"epochs": found.epochs, "seconds": sum(clocked.spent)}


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table whose first column is words, the others numbers."""
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def told(value: float | None, spec: str) -> str:
    """A number for a claim; what was not reached on somebody's data is None."""
    return "never" if value is None or not np.isfinite(value) else format(value, spec)


def geometric(first: float, last: float, count: int) -> list[int]:
    return sorted({int(v) for v in np.geomspace(first, last, count).round()})


def dotted(ax: Any, value: float, label: str | None = None) -> None:
    ax.axhline(value, color=FAINT, linewidth=1.4, linestyle=(0, (1, 2)), label=label)


def level(ax: Any, value: float, text: str) -> None:
    dotted(ax, value)
    ax.annotate(
        text, (0.99, value), xycoords=("axes fraction", "data"), xytext=(0, 3), ha="right",
        textcoords="offset points", fontsize=11, color=FAINT,
    )  # fmt: skip


def plain_ticks(axis: Any, values: Sequence[float] | None = None) -> None:
    """Numbers as people write them, on a logarithmic axis: these, or 1, 2, 5, 10, ..."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(FixedLocator(values) if values else LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}" if v >= 10 else f"{v:g}"))
    axis.set_minor_locator(NullLocator())


def key_above(figure: Any, axes: Any, columns: int = 2) -> None:
    """The legend over the axes, where it covers nothing; what several have is there once."""
    found: dict[str, Any] = {}
    for ax in axes if isinstance(axes, tuple) else (axes,):
        found |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(
        found.values(), found.keys(), loc="outside upper center", ncols=columns, handlelength=3
    )


def name_of(experiment: ModuleType) -> str:
    return experiment.__name__.rpartition(".")[2]


def save(experiment: ModuleType, numbers: dict[str, Any], folder: Path) -> None:
    """The numbers as JSON, and the picture with its claim below it."""
    folder.mkdir(parents=True, exist_ok=True)
    name = name_of(experiment)
    claim, holds = experiment.claim(numbers), experiment.holds(numbers)
    text = json.dumps({"claim": claim, "holds": holds} | numbers, indent=1)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    below = claim if holds else f"DOES NOT HOLD HERE: {claim}"
    words = "\n".join(textwrap.wrap(below, 70))
    picture = drawn(partial(experiment.draw, numbers), experiment.HEIGHT, words)
    (folder / f"{name}.png").write_bytes(picture)
    print(f"{name}: {'holds' if holds else 'DOES NOT HOLD'}: {claim}", flush=True)


def chosen_data(parser: argparse.ArgumentParser, options: argparse.Namespace) -> tuple[Data, Path]:
    """What to run on, and where to write: real sets have a folder each."""
    from experiments.real import SETS, named

    if options.data in SETS:
        return named(options.data, options.rows, options.cap), options.out / options.data
    if (options.data is None) != (options.test is None):
        parser.error(f"--data is a set ({', '.join(SETS)}), or a file and goes with --test")
    if options.data is not None:
        return from_files(Path(options.data), options.test, options.cap), options.out
    rows = options.rows or (781_265 if options.full else 40_000)
    test_rows = min(40_000, max(5_000, rows // 4))
    return corpus(rows, test_rows, cap=options.cap), options.out


def run(modules: Sequence[ModuleType]) -> int:
    """Measure, draw and judge; 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description="Each experiment writes a picture and JSON.")
    parser.add_argument("--full", action="store_true", help="at RCV1's size, not a scaled-down one")
    parser.add_argument("--rows", type=int, help="training rows to generate, or to take of a set")
    parser.add_argument(
        "--data", help="a set in the folder BRIDLE_DATA (a9a, covtype, 20news, commits), or "
        "training rows of your own, svmlight, with --test",
    )  # fmt: skip
    parser.add_argument("--test", type=Path, help="test rows of your own, svmlight")
    parser.add_argument(
        "--cap", type=float, default=Data.cap, metavar="SECONDS",
        help="processor time of the largest run of smo in solver_table (60; 600 for a big one)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder to write to")
    if len(modules) > 1:
        known = [name_of(m) for m in modules]
        parser.add_argument("only", nargs="*", metavar="NAME", help=f"of: {', '.join(known)}")
    options = parser.parse_args()
    data, out = chosen_data(parser, options)
    chosen = getattr(options, "only", [])
    held = True
    for module in modules:
        if chosen and name_of(module) not in chosen:
            continue
        numbers = module.measure(data)
        save(module, numbers, out)
        held = held and module.holds(numbers)
    return 0 if held else 1
