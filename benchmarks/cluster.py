"""What a cluster of this machine's cores buys: processes of one thread against one process.

    python benchmarks/cluster.py [--rows 20000,200000] [--workers 1,2] [--threads 1,2]
                                 [-C 0.01,0.1,1] [--repeats 5] [--work 0.1] [--json PATH]

Seconds of `solve` to a certified 1e-3, hinge and a regularised bias, medians; all take turns. The
rows are dealt at random, and lie in running workers before the clock starts. Beside them: epochs;
the share of the time in which not even the slowest worker computed (overhead); messages to all
parts; megabytes that passed the client and that workers sent to each other, and per message those
of each worker. The last columns: against one worker, and against one process with the same number
of threads (or the most that were tried).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from bridle import Cocoa, DistributedProblem, Epochs, Gap, LinearProblem, solve
from bridle.data import make_corpus

STOP = Gap(1e-3) | Epochs(1000)


def numbers(kind):
    return lambda text: [kind(part) for part in text.split(",")]


def one_process(X, y, C, n_threads, seed):
    """A solve in this process."""
    problem = LinearProblem(X, y, C, bias="regularised", n_threads=n_threads)
    clock, worked = time.perf_counter(), time.process_time()
    found = solve(problem, "dcd", stop=STOP, seed=seed)
    return {
        "seconds": time.perf_counter() - clock, "processor": time.process_time() - worked,
        "epochs": found.epochs, "gap": found.certificate.relative_gap,
    }  # fmt: skip


def on_workers(rows, C, solver, seed):
    """A solve by running workers, and what the talk with them took."""
    problem = DistributedProblem(rows, C, bias="regularised")
    before = costs(rows)
    clock, worked = time.perf_counter(), time.process_time()
    found = solve(problem, solver, stop=STOP, seed=seed)
    seconds, client = time.perf_counter() - clock, time.process_time() - worked
    spent = {name: value - before[name] for name, value in costs(rows).items()}
    report = problem.sides.report
    return {
        "seconds": seconds, "client": client, "epochs": found.epochs,
        "gap": found.certificate.relative_gap, "overhead": 1 - spent.pop("working") / seconds,
        "rounds": report.rounds, "gathered": report.gathered, **spent,
    }  # fmt: skip


def costs(rows):
    """What DaskRows have counted so far."""
    return {
        "messages": rows.rounds, "client_bytes": rows.bytes_moved,
        "peer_bytes": rows.bytes_between, "working": rows.seconds_working,
    }  # fmt: skip


@contextmanager
def running(n_workers):
    """So many processes of one thread."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0",
                     worker_dashboard_address=None, silence_logs=50, memory_limit=0) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        yield client


def dealt(client, folder, X, y, n_workers):
    """The rows at random in the memory of so many of the processes."""
    from bridle import DaskRows

    files, order = [], np.random.default_rng(0).permutation(len(y))
    for k, own in enumerate(np.array_split(order, n_workers)):
        files.append(Path(folder) / f"{n_workers}-{k}.npz")
        own.sort()  # a worker visits its rows in an order of its own
        rows = X[own]  # not by write_npz, which takes its time to compress
        np.savez(
            files[-1], data=rows.data, indices=rows.indices, indptr=rows.indptr,
            shape=rows.shape, format=b"csr", y=y[own],
        )  # fmt: skip
    rows = DaskRows(client, files)
    for file in files:
        file.unlink()
    return rows


def median(runs, name):
    return statistics.median(run[name] for run in runs)


def several(n, what):
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def table(n_rows, C, alone, spread):
    """Lines of the table, of one number of rows and one C."""
    lines, case = [], f"| {n_rows:,} | {C:g} |"
    for n_threads, runs in alone.items():
        seconds, epochs = median(runs, "seconds"), median(runs, "epochs")
        who = f"one process, {several(n_threads, 'thread')}"
        lines.append(f"{case} {who} | {seconds:.3f} | {epochs:.2g} |" + " - |" * 6)
    first = spread.get(1)
    for n_workers, runs in spread.items():
        rival = alone[n_workers if n_workers in alone else max(alone)]
        seconds, messages = median(runs, "seconds"), median(runs, "messages")
        moved = [median(runs, name) / 1e6 for name in ("client_bytes", "peer_bytes")]
        each = sum(moved) / messages / n_workers
        speedup = f"{median(first, 'seconds') / seconds:.2f}" if first else "-"
        lines.append(
            f"{case} {several(n_workers, 'worker')} | {seconds:.3f} | "
            f"{median(runs, 'epochs'):.2g} | {median(runs, 'overhead'):.0%} | {messages:g} | "
            f"{moved[0]:.3g} + {moved[1]:.3g} | {each:.2g} | {speedup} | "
            f"{seconds / median(rival, 'seconds'):.2f} |"
        )
    return lines


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cores = len(os.sched_getaffinity(0))
    options.add_argument("--rows", type=numbers(int), default=[20_000, 200_000])
    options.add_argument("--workers", type=numbers(int), default=sorted({1, cores}))
    options.add_argument("--threads", type=numbers(int), default=sorted({1, 2, cores}))
    options.add_argument("-C", "--C", type=numbers(float), default=[0.01, 0.1, 1.0])
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--work", type=float, help="epochs of a round, as Cocoa(work=)")
    options.add_argument("--json", type=Path, help="where every run goes")
    args = options.parse_args()
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    print(
        "| rows | C | who | seconds | epochs | overhead | messages | MB through the client + "
        "between workers | MB a message and worker | times one worker's speed | "
        "time, one process = 1 |"
    )
    print("| --- " * 11 + "|", flush=True)
    everything = []
    with (
        running(max(args.workers)) as client,
        tempfile.TemporaryDirectory(prefix="bridle-") as folder,
    ):
        corpus, labels = make_corpus(max(args.rows))
        for n_rows in args.rows:
            X, y = corpus[:n_rows], labels[:n_rows]
            rows = {n: dealt(client, folder, X, y, n) for n in args.workers}
            for C in args.C:
                alone = {n: [] for n in args.threads}
                spread = {n: [] for n in args.workers}
                for seed in range(args.repeats):
                    for n, runs in alone.items():
                        runs.append(one_process(X, y, C, n, seed))
                    for n, runs in spread.items():
                        runs.append(on_workers(rows[n], C, Cocoa(work=args.work), seed))
                print("\n".join(table(n_rows, C, alone, spread)), flush=True)
                everything.append({"rows": n_rows, "C": C, "alone": alone, "workers": spread})
                if args.json:
                    args.json.write_text(json.dumps(everything, indent=1))
            for own in rows.values():
                own.close()
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
