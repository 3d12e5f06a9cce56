"""How fast is a certified linear SVM, against everybody else's uncertified one?

    python -m benchmarks [--quick | --full] [--sets a,b] [--C 0.1,1] [--threads 1,2]
                         [--clock wall | cpu] [--minutes 15] [--out FOLDER]

Prints a table; writes linear.json and linear.png. See README.md for why it is fair.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import time
from pathlib import Path

from benchmarks.contestants import Bridle, available_peers
from benchmarks.data import SETS, Missing, load
from benchmarks.linear import Cell, find_optimum, measure
from benchmarks.report import picture, table

QUICK = ("corpus20k", "a9a")
USUAL = ("corpus50k", "corpus200k", "commits7", "debian", "20news", "covtype", "ijcnn1", "a9a",
         "dense28", "wide4M", "sorted200k")  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a minute: small sets, one C")
    size.add_argument("--full", action="store_true", help="hours: every set, C and accuracy")
    parser.add_argument("--sets", type=lambda text: text.split(","))
    parser.add_argument("--C", type=lambda text: [float(c) for c in text.split(",")])
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--accuracies", type=lambda text: [float(e) for e in text.split(",")])
    parser.add_argument("--solvers", type=lambda text: text.split(","), default=["auto"])
    parser.add_argument("--rounds", type=int)
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall",
        help="cpu: processor seconds, for one thread on a machine that others use too",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, help="begin no cell after this; 15 unless --full or --quick"
    )
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    chosen = parser.parse_args()
    every = sorted({1, len(os.sched_getaffinity(0))})
    by_size = (
        (QUICK, [1.0], [1e-2, 1e-3], every[:1], 3)
        if chosen.quick
        else (tuple(SETS), [0.01, 0.1, 1.0, 10.0, 100.0], [1e-2, 1e-3, 1e-4, 1e-6], every, 5)
        if chosen.full
        else (USUAL, [0.01, 1.0, 100.0], [1e-2, 1e-3, 1e-4], every[:1], 3)
    )
    if chosen.minutes is None:
        chosen.minutes = math.inf if chosen.full or chosen.quick else 15.0
    names = ("sets", "C", "accuracies", "threads", "rounds")
    for name, default in zip(names, by_size, strict=True):
        if getattr(chosen, name) is None:
            setattr(chosen, name, default)
    return chosen


def write(cells: list[Cell], chosen: argparse.Namespace) -> None:
    """After every cell: an interrupted run leaves what it has."""
    chosen.out.mkdir(parents=True, exist_ok=True)
    report = {
        "machine": platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "clock": chosen.clock,
        "cells": [cell.to_json() for cell in cells],
    }
    (chosen.out / "linear.json").write_text(json.dumps(report, indent=1))
    picture(cells, chosen.accuracies, chosen.out / "linear.png")


def main() -> None:
    chosen = arguments()
    peers, absent = available_peers()
    for name, reason in absent.items():
        print(f"without {name}: {reason}")
    ours = [Bridle(solver) for solver in chosen.solvers]
    cells: list[Cell] = []
    deadline = time.perf_counter() + 60 * chosen.minutes
    missing: set[str] = set()
    print(table([], chosen.accuracies, header=True))
    for C in chosen.C:  # every set at one C before the next: a run that ends early has seen all
        for name in chosen.sets:
            if name in missing:
                continue
            if time.perf_counter() > deadline:
                print(f"out of time: without {name} at C = {C:g}")
                continue
            try:
                data = load(name)
            except Missing as reason:
                print(f"without {name}: {reason}")
                missing.add(name)
                continue
            optimum = find_optimum(data, C, 60.0 if chosen.full else 20.0)
            for n_threads in chosen.threads:
                cells.append(
                    measure(
                        data,
                        C,
                        n_threads,
                        ours=ours,
                        peers=peers,
                        optimum=optimum,
                        accuracies=chosen.accuracies,
                        rounds=chosen.rounds,
                        clock=chosen.clock,
                    )
                )
                print(table(cells[-1:], chosen.accuracies), flush=True)
                write(cells, chosen)
    print(f"wrote {chosen.out / 'linear.json'} and {chosen.out / 'linear.png'}")


if __name__ == "__main__":
    main()
