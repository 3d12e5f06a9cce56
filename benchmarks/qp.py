"""The small QP of the cutting-plane methods: our solver against QP libraries.

Replays the sequence of programmes of a cutting-plane run (one more cut each time) on the demo
corpus and on low-dimensional data, where the Gram matrix is singular. Each programme is solved by
every solver in turn; times are medians over the last five programmes up to each size, errors are
relative to the best value that any of them found. Ours starts from the last weights, as in use; the
others have no such thing for a growing problem.

    python benchmarks/qp.py [--cuts 200]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from bridle import _core
from bridle.data import make_corpus
from bridle.problems.linear import LinearProblem
from bridle.solvers.shared.cutting_plane_model import CuttingPlaneModel


def ours(H, R, state):
    beta = np.append(state.get("beta", np.empty(0)), np.zeros(len(R) - len(state.get("beta", ()))))
    _core.steps.simplex_qp(H, R, np.zeros(len(R), np.int64), np.ones(1), beta, 1e-9)
    state["beta"] = beta
    return beta


def constraints(n):
    """A x + s = b, s >= 0."""
    import scipy.sparse as sp

    return sp.vstack([-sp.eye(n), np.ones((1, n))], format="csc"), np.append(np.zeros(n), 1.0)


def by_quadprog(H, R, state):
    import quadprog

    n = len(R)
    H = H + 1e-11 * np.trace(H) / n * np.eye(n)
    A = np.vstack([np.eye(n), -np.ones(n)]).T
    return quadprog.solve_qp(H, R, A, np.append(np.zeros(n), -1.0))[0]


def by_clarabel(H, R, state):
    import clarabel
    import scipy.sparse as sp

    A, b = constraints(len(R))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(len(b))]
    solver = clarabel.DefaultSolver(sp.triu(sp.csc_matrix(H)).tocsc(), -R, A, b, cones, settings)
    return np.array(solver.solve().x)


def by_piqp(H, R, state):
    import piqp

    n = len(R)
    solver = piqp.DenseSolver()
    solver.settings.verbose = False
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-9
    solver.setup(H, -R, None, None, np.ones((1, n)), None, np.ones(1), np.zeros(n), None)
    solver.solve()
    return np.array(solver.result.x)


def by_osqp(H, R, state):
    import osqp
    import scipy.sparse as sp

    n = len(R)
    A = sp.vstack([sp.eye(n), np.ones((1, n))], format="csc")
    solver = osqp.OSQP()
    upper = np.append(np.full(n, np.inf), 1.0)
    solver.setup(
        sp.triu(sp.csc_matrix(H)).tocsc(),
        -R,
        A,
        np.zeros(n + 1),
        upper,
        verbose=False,
        eps_abs=1e-7,
        eps_rel=1e-7,
        max_iter=20000,
    )
    return np.array(solver.solve().x)


SOLVERS = {"bridle": ours, "quadprog": by_quadprog, "clarabel": by_clarabel, "piqp": by_piqp,
           "osqp": by_osqp}  # fmt: skip


def programmes(problem, n_cuts):
    """(H, R) after each cut of a plain cutting-plane run."""
    model = CuttingPlaneModel(problem.n_features + 1, idle=10**9)
    w = np.zeros(problem.n_features)
    for _ in range(n_cuts):
        active = problem.y * problem.scores(w) < 1
        g = np.zeros(problem.n_features + 1)
        _core.rows.combine(problem.rows.view, problem.signed_cost * active, g, problem.n_threads)
        model.add(g, float(problem.cost @ active))
        yield model.gram.copy(), model.r.copy()
        w = model.solve().w[:-1]


def feasible(beta):
    beta = np.maximum(beta, 0.0)
    return beta / max(1.0, beta.sum())


def replay(title, problem, n_cuts, sizes):
    names, times, values = [], {}, {}
    for name, solver in SOLVERS.items():
        try:
            solver(np.eye(2), np.ones(2), {})
        except ImportError:
            print(f"{name}: not installed")
            continue
        names.append(name)
    states = {name: {} for name in names}
    for H, R in programmes(problem, n_cuts):
        due = any(size - 5 < len(R) <= size for size in sizes)
        for name in names:
            if not due and name != "bridle":
                continue
            clock = time.perf_counter()
            try:
                beta = SOLVERS[name](H, R, states[name])
            except (ValueError, RuntimeError):  # quadprog: not positive definite
                beta = None
            times.setdefault((name, len(R)), []).append(time.perf_counter() - clock)
            if beta is not None and np.isfinite(beta).all():
                beta = feasible(beta)
                values[name, len(R)] = R @ beta - 0.5 * beta @ H @ beta
    print(f"\n{title}: milliseconds (relative error)")
    print(f"{'cuts':>6}" + "".join(f"{name:>20}" for name in names))
    for size in sizes:
        cells = []
        for name in names:
            near = [n for n in range(size - 4, size + 1) if (name, n) in times]
            ms = 1e3 * np.median([t for n in near for t in times[name, n]])
            best = {
                n: max(values[other, n] for other in names if (other, n) in values) for n in near
            }
            errors = [
                1 - values[name, n] / best[n] if (name, n) in values else np.inf for n in near
            ]
            cells.append(f"{ms:9.2f} ({max(errors):8.1e})")
        print(f"{size:>6}" + "".join(f"{cell:>20}" for cell in cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuts", type=int, default=200)
    cuts = parser.parse_args().cuts
    sizes = [size for size in (10, 50, 100, 200, 400, 800) if size <= cuts]
    X, y = make_corpus(20000, seed=0)
    replay("corpus, 20,000 rows, C = 1", LinearProblem(X, y, 1.0), cuts, sizes)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 20))
    y = np.where(X @ rng.normal(size=20) + rng.normal(size=5000) > 0, 1.0, -1.0)
    replay("gaussian, 5,000 x 20, C = 1", LinearProblem(X, y, 1.0), cuts, sizes)


if __name__ == "__main__":
    main()
