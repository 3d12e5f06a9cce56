"""Time to a given accuracy: ours with its proof, the peers' in hindsight.

For one cell (a set, a C, a number of threads):

1. The optimum P* is found once, off the clock, to a certified 1e-8 in float64.
2. Each contestant sweeps its settings from loose to tight, one run each: seconds, and the
   suboptimality (P(w) - P*)/P* of what it returned, computed here. A peer's setting for e is its
   fastest that reached e. Ours is always the gap e itself, which it must prove by itself.
3. The chosen settings run again, taking turns, `rounds` times. Medians and spreads are of these.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.contestants import Bridle, Contestant
from benchmarks.data import Data

SWEEP_LIMIT = 20.0  # seconds: after a run this long, a contestant gets no tighter setting


@dataclass
class Run:
    wall: float
    cpu: float
    suboptimality: float
    seconds: float  # of the clock that counts


@dataclass
class Entry:
    """One contestant's way to one accuracy."""

    contestant: str
    setting: Any
    runs: list[Run] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return statistics.median(run.seconds for run in self.runs)

    @property
    def spread(self) -> tuple[float, float]:
        times = [run.seconds for run in self.runs]
        return min(times), max(times)


@dataclass
class Cell:
    data: str
    rows: int
    features: int
    nnz: int
    C: float
    n_threads: int
    optimum: float
    optimum_gap: float
    clock: str
    entries: dict[float, dict[str, Entry]] = field(default_factory=dict)  # accuracy -> who -> how

    def fastest_peer(self, accuracy: float) -> Entry | None:
        entries = self.entries[accuracy]
        peers = [entries[who] for who in entries if not who.startswith("bridle")]
        return min(peers, key=lambda entry: entry.seconds) if peers else None

    def ratio(self, accuracy: float, who: str) -> float | None:
        """How many times faster than the fastest peer; None where no peer got there."""
        ours, peer = self.entries[accuracy].get(who), self.fastest_peer(accuracy)
        return None if ours is None or peer is None else peer.seconds / ours.seconds

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def primal(data: Data, w: np.ndarray, C: float) -> float:
    margins = data.y * (data.X @ w.astype(np.float64))
    return 0.5 * float(w @ w) + C * float(np.maximum(0.0, 1.0 - margins).sum())


def find_optimum(data: Data, C: float, limit: float) -> tuple[float, float]:
    """P* from below, and how far off it may be."""
    from bridle import Epochs, Gap, LinearProblem, Seconds, solve

    problem = LinearProblem(data.X.astype(np.float64), data.y, C)
    stop = Gap(1e-8) | Epochs(1_000_000) | Seconds(limit)
    certificate = solve(problem, "auto", stop=stop).certificate
    return certificate.dual, certificate.relative_gap


def timed(contestant: Contestant, ready: Any, data: Data, cell: Cell, setting: Any) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "failed to converge": we see how far it got
        start, cpu = time.perf_counter(), time.process_time()
        w = contestant.fit(ready, cell.C, setting, cell.n_threads)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    value = primal(data, np.asarray(w, np.float64), cell.C)
    seconds = cpu if cell.clock == "cpu" else wall
    return Run(wall, cpu, value / cell.optimum - 1.0, seconds)


def sweep(
    contestant: Contestant, ready: Any, data: Data, cell: Cell, accuracies: Sequence[float]
) -> list[tuple[Any, Run]]:
    """One run at each setting, until the tightest accuracy is reached or a run takes too long."""
    tried = []
    for setting in contestant.settings:
        run = timed(contestant, ready, data, cell, setting)
        tried.append((setting, run))
        if run.suboptimality <= min(accuracies) or run.seconds > SWEEP_LIMIT:
            break
    return tried


def choose(tried: Sequence[tuple[Any, Run]], accuracy: float) -> Any | None:
    """The fastest setting that reached the accuracy."""
    good = [(run.seconds, i) for i, (_, run) in enumerate(tried) if run.suboptimality <= accuracy]
    return tried[min(good)[1]][0] if good else None


def measure(
    data: Data, C: float, n_threads: int, *, ours: Sequence[Bridle], peers: Sequence[Contestant],
    accuracies: Sequence[float], rounds: int, optimum_limit: float = 60.0,
    optimum: tuple[float, float] | None = None, clock: str = "wall",
) -> Cell:  # fmt: skip
    """One cell of the table."""
    best, best_gap = optimum or find_optimum(data, C, optimum_limit)
    cell = Cell(data.name, *data.X.shape, data.nnz, C, n_threads, best, best_gap, clock)
    contestants: list[Contestant] = [*ours, *peers]
    ready = {who.name: who.prepare(data) for who in contestants}
    plan: dict[tuple[str, Any], tuple[Contestant, list[Run]]] = {}
    for who in contestants:
        tried = (
            [] if isinstance(who, Bridle) else sweep(who, ready[who.name], data, cell, accuracies)
        )
        for accuracy in accuracies:
            setting = accuracy if isinstance(who, Bridle) else choose(tried, accuracy)
            if setting is None:
                continue
            _, runs = plan.setdefault((who.name, setting), (who, []))
            cell.entries.setdefault(accuracy, {})[who.name] = Entry(who.name, setting, runs)
    for _ in range(rounds):
        for (name, setting), (who, runs) in plan.items():
            runs.append(timed(who, ready[name], data, cell, setting))
    drop_what_missed(cell)
    return cell


def drop_what_missed(cell: Cell) -> None:
    """Ours may run into its budget: then it has no time for that accuracy."""
    for accuracy, entries in cell.entries.items():
        for who in list(entries):
            worst = max(run.suboptimality for run in entries[who].runs)
            if worst > accuracy + cell.optimum_gap:
                del entries[who]
