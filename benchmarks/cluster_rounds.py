"""How many epochs and rounds a cluster takes: a simulation of up to 64 workers, in one process.

    python -m benchmarks.cluster_rounds [--rows 20000] [--C 0.1,1] [--parts 1,2,4,16,64]
                                        [--work 0.05,...] [--gather 0] [--out FOLDER] [--dask 1,2]
                                        [--model-rows 10000,100000]
    python -m benchmarks.cluster_rounds --rate 200000

For every number of parts K and every amount of local work between two exchanges (0: what Cocoa
chooses): epochs to a certified 1e-3, rounds, rounds on gathered rows, messages and bytes. The rows
are dealt out at random. --dask also runs processes of a LocalCluster, measures what a
round costs beyond the work of the slowest worker, and compares seconds per round with the model

    t = work N / (K r) + 2 K d b / B + t0,

whose constants are measured apart: the rate r in this process on one part's rows, B with messages
to actors that only answer, t0 with rounds that visit next to nothing. Writes
cluster_rounds.json and cluster_rounds.png.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from bridle import (
    Cocoa,
    DistributedProblem,
    DualCoordinateDescent,
    Epochs,
    Gap,
    LinearProblem,
    Seconds,
    _core,
    solve,
)
from bridle.data import make_corpus
from bridle.rows.cluster.links import FANOUT, depth
from bridle.rows.cluster.local import LocalParts

from benchmarks.cluster import dealt, numbers, running

TOL = 1e-3


def simulate(X, y, C, n_parts, solver, max_epochs, max_seconds):
    parts = LocalParts(X, y, n_parts, shuffle=0)
    problem = DistributedProblem(parts, C, bias="regularised")
    stop = Gap(TOL) | Epochs(max_epochs) | Seconds(max_seconds)
    calls, moved = parts.calls, parts.bytes_moved
    found = solve(problem, solver, stop=stop)
    report = problem.sides.report
    return {
        "C": C, "parts": n_parts, "work": solver.work or 0.0, "epochs": found.epochs,
        "rounds": report.rounds, "gathered": report.gathered, "messages": parts.calls - calls,
        "bytes": parts.bytes_moved - moved,
        "gap": found.certificate.relative_gap, "converged": found.converged,
    }  # fmt: skip


def on_dask(X, y, C, n_workers, solver):
    with running(n_workers) as client, tempfile.TemporaryDirectory() as folder:
        rows = dealt(client, folder, X, y, n_workers)
        problem = DistributedProblem(rows, C, bias="regularised")
        clock = time.perf_counter()
        messages, moved, overhead = rows.rounds, rows.bytes_moved, rows.seconds_overhead
        found = solve(problem, solver, stop=Gap(TOL) | Epochs(500))
        seconds = time.perf_counter() - clock
        messages, moved = rows.rounds - messages, rows.bytes_moved - moved
        overhead, report = rows.seconds_overhead - overhead, problem.sides.report
        return {
            "C": C, "workers": n_workers, "epochs": found.epochs, "seconds": seconds,
            "rounds": report.rounds, "gathered": report.gathered, "messages": messages,
            "seconds_overhead": overhead, "bytes": moved,
            "gap": found.certificate.relative_gap,
        }  # fmt: skip


def time_rounds(parts, C, work, n):
    """Seconds and passes over the rows, of all parts together, of n rounds after the first."""
    problem = DistributedProblem(parts, C, bias="regularised")
    rounds, taken, steps = Cocoa(work=work, gather=0).iterates(problem, rng=_core.Rng(0)), [], []
    for _ in range(n + 1):
        clock = time.perf_counter()
        steps.append(next(rounds).step)
        taken.append(time.perf_counter() - clock)
    rounds.close()
    return statistics.median(taken[1:]), statistics.median(np.diff(steps)) / problem.n_rows


def pass_rates(n_rows, C):
    """Non-zeros a second of one thread: dcd's first epoch, which visits all rows, and a part's."""
    X, y = make_corpus(n_rows)
    problem = LinearProblem(X, y, C, bias="regularised", n_threads=1)
    taken = []
    for seed in range(3):
        epochs = DualCoordinateDescent().iterates(problem, rng=_core.Rng(seed))
        clock = time.perf_counter()
        assert next(epochs).step == n_rows
        taken.append(time.perf_counter() - clock)
    seconds, passes = time_rounds(LocalParts(X, y, 1), C, 1.0, 3)
    shown = ", ".join(f"{X.nnz / seconds:.3g}" for seconds in taken)
    print(
        f"{X.nnz} non-zeros; a second: dcd {shown}; a part of cocoa {passes * X.nnz / seconds:.3g}"
    )


def check_model(sizes, C, counts, works):
    """Seconds per round on processes of this machine: predicted, and measured."""
    lines, constants = [], None
    print("| workers | rows | epochs a round | passes | predicted | measured | ratio | overhead |")
    with running(max(counts)) as client, tempfile.TemporaryDirectory() as folder:
        for n_rows in sizes:
            X, y = make_corpus(n_rows)
            vectors = 2 * 4 * (X.shape[1] + 1)
            for n_workers in counts:
                rows = dealt(client, folder, X, y, n_workers)
                if constants is None:
                    constants = measured_constants(rows, C, vectors)
                    print(f"t0 = {1e3 * constants[0]:.2f} ms, B = {constants[1]:.3g} bytes/s")
                lines += check_rounds(rows, X, y, C, n_workers, works, constants)
                rows.close()
    return lines


def check_rounds(rows, X, y, C, n_workers, works, constants):
    """The same of rows on so many workers."""
    own, lines = np.random.default_rng(0).permutation(len(y))[: len(y) // n_workers], []
    seconds, passes = time_rounds(LocalParts(X[own], y[own], 1), C, 1.0, 3)
    rate, (latency, bandwidth) = passes * X[own].nnz / seconds, constants
    vectors = 2 * 4 * (X.shape[1] + 1) * min(n_workers, FANOUT)
    message = depth(n_workers) * (latency + vectors / bandwidth)
    for work in works:
        # Rows that rest at their bounds are not visited: count those that were.
        count, spent = min(20, 1 + math.ceil(2 / work)), rows.seconds_overhead
        taken, passes = time_rounds(rows, C, work, count)
        overhead = (rows.seconds_overhead - spent) / (count + 3)
        model = passes * X.nnz / (n_workers * rate) + message
        lines.append({
            "rows": len(y), "nonzeros": X.nnz, "workers": n_workers, "work": work,
            "passes": passes, "rate": rate, "bandwidth": bandwidth, "latency": latency,
            "predicted": model, "measured": taken, "message": message, "overhead": overhead,
        })  # fmt: skip
        print(
            f"| {n_workers} | {len(y):,} | {work:g} | {passes:.3g} | {1e3 * model:.2f} ms | "
            f"{1e3 * taken:.2f} ms | {taken / model:.2f} | "
            f"{1e3 * overhead:.2f} for {1e3 * message:.2f} ms | (r = {rate:.3g})",
            flush=True,
        )
    return lines


def measured_constants(rows, C, vectors):
    """Of one worker: the seconds of a message that says nothing, and bytes a second."""
    empty = []
    for _ in range(60):
        clock = time.perf_counter()
        rows.call("forget", [])
        empty.append(time.perf_counter() - clock)
    latency = statistics.median(empty)
    spent, n = rows.seconds_overhead, 60
    time_rounds(rows, C, 1e-4, n)
    return latency, vectors / max((rows.seconds_overhead - spent) / (n + 3) - latency, 1e-9)


def picture(cells, alone, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    costs = sorted(alone)
    figure, axes = plt.subplots(1, len(costs), figsize=(5.2 * len(costs), 4), squeeze=False)
    for axis, C in zip(axes[0], costs, strict=True):
        for work in sorted({cell["work"] for cell in cells}):
            own = [c for c in cells if c["C"] == C and c["work"] == work and c["converged"]]
            axis.plot(
                [c["parts"] for c in own], [c["epochs"] / alone[C] for c in own], "o-",
                label=f"{work:g} epochs between exchanges",
            )  # fmt: skip
        axis.plot([2, 16], [2, 4], "kx", ms=9, label="target: 2 at 2, 4 at 16")
        axis.set(
            xscale="log", yscale="log", xlabel="workers", title=f"C = {C:g}",
            ylabel=f"epochs to {TOL:g}, one machine = 1",
        )  # fmt: skip
        axis.set_xticks([1, 2, 4, 16, 64], ["1", "2", "4", "16", "64"])
        axis.set_yticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=20_000)
    options.add_argument("--C", type=numbers(float), default=[0.1, 1.0])
    options.add_argument("--parts", type=numbers(int), default=[1, 2, 4, 16, 64])
    options.add_argument("--work", type=numbers(float), default=[0.0, 0.05, 0.1, 0.3, 1.0])
    options.add_argument("--gather", type=float, default=Cocoa.gather)
    options.add_argument("--max-times", type=float, default=8.0, help="give up at so many times")
    options.add_argument("--seconds", type=float, default=60.0, help="of a run")
    options.add_argument("--dask", type=numbers(int), default=[])
    options.add_argument("--model-rows", type=numbers(int), default=[10_000, 100_000])
    options.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    options.add_argument("--rate", type=int, metavar="ROWS", help="only measure a pass over these")
    args = options.parse_args()
    if args.rate:
        pass_rates(args.rate, 0.1)
        return
    args.parts = [n for n in args.parts if n]  # --parts 0: no simulation
    args.out.mkdir(parents=True, exist_ok=True)
    modelled = []
    if args.dask:
        works = [work for work in args.work if work]
        modelled = check_model(args.model_rows, 0.1, args.dask, works)
    X, y = make_corpus(args.rows)
    alone, cells, measured = {}, [], []
    report = {"alone": alone, "cells": cells, "dask": measured, "model": modelled}
    print("C  workers  work | epochs  times  rounds  gathered  messages  MB  gap")
    for C in args.C:
        one = solve(
            LinearProblem(X, y, C, bias="regularised", n_threads=1),
            "dcd",
            stop=Gap(TOL) | Epochs(500),
        )
        alone[C] = one.epochs
        print(f"{C:g}  one machine | {one.epochs:.4g}  1")
        for n_parts in args.parts:
            for work in args.work:
                solver = Cocoa(work=work or None, gather=args.gather)
                cell = simulate(X, y, C, n_parts, solver, args.max_times * one.epochs, args.seconds)
                cells.append(cell)
                print(
                    f"{C:g}  {n_parts}  {work:g} | {cell['epochs']:.4g}  "
                    f"{cell['epochs'] / one.epochs:.2f}  {cell['rounds']}  {cell['gathered']}  "
                    f"{cell['messages']}  {cell['bytes'] / 1e6:.3g}  "
                    f"{cell['gap']:.1e}{'' if cell['converged'] else '  gave up'}",
                    flush=True,
                )
                (args.out / "cluster_rounds.json").write_text(json.dumps(report, indent=1))
        if args.dask:
            n_workers = max(args.dask)
            measured.append(on_dask(X, y, C, n_workers, Cocoa(gather=args.gather)))
            print(measured[-1], flush=True)
    (args.out / "cluster_rounds.json").write_text(json.dumps(report, indent=1))
    if cells:
        picture(cells, alone, args.out / "cluster_rounds.png")


if __name__ == "__main__":
    main()
