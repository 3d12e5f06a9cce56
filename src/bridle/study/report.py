"""A report on one data set: which C, how well certified, which features, where the errors are.

Of classes or of numbers to predict; the loss says which.

C is chosen by cross-validation. A fold is the same rows with weight zero for those held out, and in
each fold `bridle.path` certifies every C of the range, so that the grid of values that are tried
costs nothing beyond it. The model is then fitted to all rows at that C. Errors are those on the
test rows or, without any, on the rows held out by each fold.

The page is one file that asks for nothing from anywhere. Its numbers are one block of JSON, from
which its own script draws; nothing that came from the data is ever parsed as HTML.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import islice
from typing import Any

import numpy as np
from bridle import __version__
from bridle.files.atomic import replacing
from bridle.fitting.c_path import Path, PathPoint, path_points
from bridle.fitting.multiclass import Effort, solve_one_vs_rest
from bridle.fitting.problems import Task
from bridle.fitting.regression import fit_regression
from bridle.fitting.solutions import Solutions
from bridle.matrix.arrays import Array
from bridle.matrix.fingerprint import fingerprint
from bridle.models.deciding import decide
from bridle.objective.answers import of_numbers
from bridle.objective.bias import Bias
from bridle.objective.certificate import total_trace
from bridle.objective.losses import Hinge, Loss, loss_from
from bridle.objective.point import supporting
from bridle.problems.linear import LinearProblem
from bridle.solvers import Solver, solver_from
from bridle.solving.stopping import Epochs, Gap, Seconds
from bridle.study.comparison import Comparison, compare
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
SOLVERS = ("dcd", "sgd-m", "pegasos", "ocas", "newton", "svmsgd")
COMPARED = 4  # the first of these that can minimise the loss
PATH_GAP = 1e-2  # errors hardly change below it
GRID = 26  # values of C, from LOWEST to HIGHEST in units of 1 / mean |x|^2
LOWEST, HIGHEST = 1e-3, 1e2
FEATURES = 15  # shown for each class
BINS = 40
DOTS = 800


def make_report(
    X: Any,
    y: ArrayLike,
    *,
    test: tuple[Any, ArrayLike] | None = None,
    feature_names: Sequence[str] | None = None,
    title: str = "data",
    command: str = "",
    loss: str | Loss = Hinge(),  # noqa: B008  (frozen)
    bias: Bias = "regularised",
    gap: float = 1e-3,
    folds: int = 3,
    solvers: Iterable[str] | Mapping[str, str | Solver] | None = None,
    max_seconds: float = 10.0,
    seed: int = 0,
    n_threads: int | None = None,
) -> dict[str, Any]:
    """Everything that the page shows, as plain numbers and strings, ready for JSON.

    max_seconds: for each path over C, for the final fit and for each solver compared.
    feature_names: one for each column of X. command: how to make this report again. solvers: to
    compare; None: four that can minimise the loss.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> report = bridle.make_report(X, X[:, 0] > 0, max_seconds=0.2)
    >>> report["data"]["rows"], report["data"]["features"]
    (60, 3)
    """
    formula = loss_from(loss)
    if formula.one_class:
        raise ValueError("there is no report of one class, whose rows have no labels")
    if formula.residual:
        return _of_targets(
            X, y, test, feature_names, title, command, Task(1.0, formula, bias),
            Effort("auto", Gap(gap) | Epochs(10**5) | Seconds(max_seconds), seed, n_threads),
            folds, solvers, max_seconds,
        )  # fmt: skip
    labels = np.asarray(y)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError("every row has the same label: nothing to learn")
    if not 2 <= folds <= len(codes):
        raise ValueError(f"folds must be in 2..{len(codes)}, got {folds}")
    signs = np.where(codes == 1, 1.0, -1.0)
    problem = LinearProblem(X, signs, loss=loss, bias=bias, n_threads=n_threads)
    _check_names(feature_names, problem)
    held_out = None
    if test is not None:
        held_out = (_widened(test[0], problem.n_features), _codes(test[1], classes))
    positives = [1] if len(classes) == 2 else list(range(len(classes)))
    path, guesses = _choose(
        problem, [{"y": np.where(codes == k, 1.0, -1.0)} for k in positives],
        _folds(codes, folds, seed), lambda scores: _decide(scores) != codes, max_seconds, seed,
    )  # fmt: skip
    C = path["chosen"]
    fit = solve_one_vs_rest(
        problem.X, codes, len(classes), C, loss=loss, bias=bias, seed=seed, n_threads=n_threads,
        stop=Gap(gap) | Epochs(10**5) | Seconds(max_seconds),
        watch=lambda k, record: None,  # who is watched certifies more often: there is a curve
    )  # fmt: skip
    scores = _scores(problem.X, fit)
    names = [_plain(label) for label in classes]
    if held_out is None:
        judged = (codes, _decide(guesses), guesses, "rows held out by cross-validation")
    else:
        seen = _scores(held_out[0], fit)
        judged = (held_out[1], _decide(seen), seen, "test rows")
    truth, predicted, judged_scores, judged_name = judged
    return {
        "title": title, "kind": "classes", "measure": "error",
        "data": _glance(problem) | {
            "classes": names, "class_rows": np.bincount(codes, minlength=len(names)).tolist(),
            "test_rows": _rows(held_out),
        },
        "path": path,
        "model": _model(problem, C, fit, gap, float(np.mean(_decide(scores) != codes)))
        | {"error_test": None if held_out is None else float(np.mean(predicted != truth))},
        "convergence": _columns(total_trace([s.trace for s in fit.solutions])),
        "comparison": _comparison(
            problem.variant(C=C), codes, names, held_out, solvers, gap, max_seconds, seed
        ),
        "features": _features(
            problem, fit, names[1:] if len(names) == 2 else names, feature_names
        ),
        "errors": _errors(truth, predicted, names, judged_name),
        "margins": _margins({"training rows": _margin(scores, codes),
                             judged_name: _margin(judged_scores, truth)}),
        "reproduce": _reproduce(command, seed, fingerprint(X, labels)),
    }  # fmt: skip


def _of_targets(
    X: Any, y: ArrayLike, test: tuple[Any, ArrayLike] | None, feature_names: Sequence[str] | None,
    title: str, command: str, task: Task, effort: Effort, folds: int, solvers: Any,
    max_seconds: float,
) -> dict[str, Any]:  # fmt: skip
    """The same of numbers to predict: C by the mean of the loss itself, and residuals."""
    truth, seed = np.asarray(y, np.float64), effort.seed
    problem = LinearProblem(X, truth, loss=task.loss, bias=task.bias, n_threads=effort.n_threads)
    _check_names(feature_names, problem)
    if not 2 <= folds <= problem.n_rows:
        raise ValueError(f"folds must be in 2..{problem.n_rows}, got {folds}")
    path, guesses = _choose(
        problem, [{}], _folds(np.zeros(problem.n_rows, np.int64), folds, seed),
        lambda scores: problem.loss.value(scores[:, 0] - truth), max_seconds, seed,
    )  # fmt: skip
    task = replace(task, C=path["chosen"])
    effort = replace(effort, watch=lambda k, record: None)  # certifies more often: a curve
    fit = fit_regression(problem.X, truth, task=task, effort=effort).solutions
    scores = _scores(problem.X, fit)[:, 0]
    judged, said, name = truth, guesses[:, 0], "rows held out by cross-validation"
    held_out = None
    if test is not None:
        held_out = (_widened(test[0], problem.n_features), np.asarray(test[1], np.float64))
        judged, said, name = held_out[1], _scores(held_out[0], fit)[:, 0], "test rows"
    training = of_numbers(scores, truth, problem.loss)
    measured = of_numbers(said, judged, problem.loss)
    here, gap = problem.variant(C=task.C), effort.stop.gap
    assert gap is not None
    compared = _compared(here, solvers, held_out, gap, max_seconds, seed)
    return {
        "title": title, "kind": "targets", "measure": "mean_loss",
        "data": _glance(problem) | {
            "target": dict(zip(("least", "median", "most"), _spread(truth), strict=True)),
            "test_rows": None if held_out is None else len(judged),
        },
        "path": path,
        "model": _model(problem, task.C, fit, gap, training["mean_loss"])
        | {"error_test": None if held_out is None else measured["mean_loss"]},
        "convergence": _columns(total_trace([s.trace for s in fit.solutions])),
        "comparison": {"gap": gap, "runs": _runs(compared, "mean_loss")},
        "features": _features(problem, fit, ["the number"], feature_names),
        "residuals": _dots(judged, said, name, seed)
        | {"measures": {"training rows": training, name: measured}},
        "margins": _margins({"training rows": scores - truth, name: said - judged}),
        "reproduce": _reproduce(command, seed, fingerprint(X, truth)),
    }  # fmt: skip


def _check_names(names: Sequence[str] | None, problem: LinearProblem) -> None:
    if names is not None and len(names) != problem.n_features:
        raise ValueError(f"there are {len(names)} names for {problem.n_features} features")


def _dots(truth: Array, said: Array, rows: str, seed: int) -> dict[str, Any]:
    """Residuals over what was said, of some rows where there are many."""
    shown = np.arange(len(truth))
    if len(truth) > DOTS:
        shown = np.sort(np.random.default_rng(seed).choice(len(truth), DOTS, replace=False))
    return {
        "rows": rows, "of": len(truth), "said": said[shown].tolist(),
        "residual": (said - truth)[shown].tolist(),
    }  # fmt: skip


def _reproduce(command: str, seed: int, name: str) -> dict[str, Any]:
    return {"command": command, "seed": seed, "fingerprint": name, "versions": _versions()}


def render(report: Mapping[str, Any]) -> str:
    """The page. No character of the report can end the JSON block or begin a tag."""
    text = json.dumps(report, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    template = files("bridle.study").joinpath("report.html").read_text(encoding="utf-8")
    before, after = template.split("{{report}}")
    return before + text + after


def write_report(path: str | os.PathLike[str], report: Mapping[str, Any]) -> None:
    """Write the page; whoever opens the file sees the old one or the new one, whole.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> bridle.write_report("report.html", bridle.make_report(X, X[:, 0] > 0, max_seconds=0.2))
    """
    page = render(report).encode()
    with replacing(path) as file:
        file.write(page)


def _choose(
    problem: LinearProblem, functions: Sequence[Mapping[str, Array]], fold: Ints,
    per_row: Callable[[Array], Array], max_seconds: float, seed: int,
) -> tuple[dict[str, Any], Array]:  # fmt: skip
    """Errors over C by cross-validation; the scores of every row at the best C, when held out.

    functions: the labels of each, where they are not the problem's. per_row: what is wrong with the
    rows, from the scores of all functions.
    """
    folds = int(fold.max()) + 1
    unit = float(problem.squared_norms.mean()) or 1.0
    grid = np.geomspace(LOWEST / unit, HIGHEST / unit, GRID)
    paths = [
        [
            _path(
                problem.variant(
                    C=grid[0], sample_weight=np.where(fold == f, 0.0, problem.sample_weight),
                    **function,
                ),
                grid[-1], max_seconds, seed,
            )
            for function in functions
        ]
        for f in range(folds)
    ]  # fmt: skip
    every = [path for row in paths for path in row]
    # A path that ran out of time ends early; beyond its end nothing is known.
    grid = grid[grid <= min(path[-1].high for path in every) * (1 + 1e-12)]
    rows = [np.flatnonzero(fold == f) for f in range(folds)]
    gaps, errors, best = np.zeros(len(grid)), np.empty((len(grid), folds)), 0
    best_scores = scores = np.empty((len(fold), len(functions)))
    for j, C in enumerate(grid):
        scores = np.empty_like(scores)
        for f in range(folds):
            for k, path in enumerate(paths[f]):
                solution, certificate = path.at(min(C, path[-1].high))
                scores[rows[f], k] = problem.X[rows[f]] @ solution.w + solution.b
                gaps[j] = max(gaps[j], certificate.relative_gap)
        wrong = per_row(scores)
        errors[j] = [np.mean(wrong[r]) for r in rows]
        if j == 0 or errors[j].mean() < errors[best].mean():  # the smallest C among equals
            best, best_scores = j, scores
    return {
        "C": grid.tolist(), "error": errors.mean(axis=1).tolist(),
        "lowest": errors.min(axis=1).tolist(), "highest": errors.max(axis=1).tolist(),
        "gap": gaps.tolist(), "chosen": float(grid[best]), "folds": folds,
        "solves": sum(map(len, every)), "complete": all(path.complete for path in every),
        "at_end": best in (0, len(grid) - 1),
    }, best_scores  # fmt: skip


def _path(problem: LinearProblem, C_max: float, max_seconds: float, seed: int) -> Path:
    deadline = time.perf_counter() + max_seconds
    stop = Gap(PATH_GAP / 4) | Epochs(10**5) | Seconds(max_seconds)
    points: list[PathPoint] = []
    for point in path_points(problem, C_max, PATH_GAP, "auto", stop, seed):
        points.append(point)
        if time.perf_counter() > deadline:
            break
    return Path(tuple(points), PATH_GAP, points[-1].high >= C_max)


def _folds(codes: Ints, folds: int, seed: int) -> Ints:
    """The fold of each row: every class is dealt out evenly, in a random order."""
    rng = np.random.default_rng(seed)
    fold = np.empty(len(codes), np.int64)
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    fold[order] = np.arange(len(codes)) % folds
    return fold


def _scores(X: Any, fit: Solutions) -> Array:
    return np.column_stack([np.asarray(X @ s.w).ravel() + s.b for s in fit.solutions])


def _decide(scores: Array) -> Ints:
    return decide(scores[:, 0] if scores.shape[1] == 1 else scores)


def _margin(scores: Array, codes: Ints) -> Array:
    """y score of two classes; else the score of the row's class above the best of the others."""
    if scores.shape[1] == 1:
        return np.where(codes == 1, 1.0, -1.0) * scores[:, 0]
    rows = np.arange(len(codes))
    others = scores.copy()
    others[rows, codes] = -np.inf
    margin: Array = scores[rows, codes] - others.max(axis=1)
    return margin


def _margins(series: Mapping[str, Array]) -> dict[str, Any]:
    """Shares of the rows in bins that leave out half a per cent at both ends."""
    low, high = np.quantile(np.concatenate(list(series.values())), [0.005, 0.995])
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    shares = {
        name: np.histogram(np.clip(m, edges[0], edges[-1]), edges)[0] / len(m)
        for name, m in series.items()
    }
    return {
        "edges": edges.tolist(),
        "series": [{"name": name, "share": s.tolist()} for name, s in shares.items()],
        "below_0": {name: float(np.mean(m <= 0)) for name, m in series.items()},
        "below_1": {name: float(np.mean(m < 1)) for name, m in series.items()},
    }


def _glance(problem: LinearProblem) -> dict[str, Any]:
    X = problem.X
    if hasattr(X, "indptr"):
        per_row, stored = np.diff(X.indptr), X.data
        used = len(np.unique(X.indices[X.data != 0]))
    else:
        per_row, stored = np.count_nonzero(X, axis=1), np.asarray(X).ravel()
        used = int(np.any(X != 0, axis=0).sum())
    lengths = np.sqrt(_row_squares(problem))
    return {
        "rows": problem.n_rows, "features": problem.n_features, "features_used": used,
        "nnz": int(per_row.sum()), "precision": str(problem.dtype),
        "per_row": dict(zip(("least", "median", "most"), _spread(per_row), strict=True)),
        "length": dict(zip(("least", "median", "most"), _spread(lengths), strict=True)),
        "value": [float(stored.min()), float(stored.max())] if stored.size else [0.0, 0.0],
    }  # fmt: skip


def _row_squares(problem: LinearProblem) -> Array:
    """|x_i|^2 without the constant feature."""
    constant = problem.bias_scale**2 if problem.bias == "regularised" else 0.0
    return np.maximum(problem.squared_norms - constant, 0.0)


def _spread(values: Any) -> list[float]:
    return [float(v) for v in np.quantile(values, [0.0, 0.5, 1.0])]


def _model(
    problem: LinearProblem, C: float, fit: Solutions, gap: float, error_train: float
) -> dict[str, Any]:
    certificate = fit.certificate
    last = [s.trace[-1] for s in fit.solutions]
    return {
        "C": C, "lam": problem.variant(C=C).lam, "loss": problem.loss.name, "bias": problem.bias,
        "solver": ", ".join(sorted({s.solver for s in fit.solutions})),
        "primal": certificate.primal, "dual": certificate.dual, "gap": gap,
        "relative_gap": certificate.relative_gap, "source": certificate.source,
        "status": fit.status.value, "message": fit.worst.message, "epochs": fit.epochs,
        "seconds": {"solve": sum(r.seconds_solver for r in last),
                    "certify": sum(r.seconds_certify for r in last)},
        "support_vectors": int(np.any([supporting(s.alpha) for s in fit.solutions], axis=0).sum()),
        "error_train": error_train,
    }  # fmt: skip


def _columns(trace: Any, **more: Array) -> dict[str, Any]:
    return {
        "seconds": _numbers(trace["seconds_solver"]), "epoch": _numbers(trace["epoch"]),
        "primal": _numbers(trace["primal"]), "dual": _numbers(trace["dual"]),
        "gap": _numbers(trace["relative_gap"]), **{k: _numbers(v) for k, v in more.items()},
    }  # fmt: skip


def _comparison(
    problem: LinearProblem, codes: Ints, names: list[str], test: tuple[Any, Ints] | None,
    solvers: Any, gap: float, max_seconds: float, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Of several classes, the largest against the rest."""
    k = 1 if len(names) == 2 else int(np.argmax(np.bincount(codes)))
    problem = problem.variant(y=np.where(codes == k, 1.0, -1.0))
    rows = None if test is None else (test[0], np.where(test[1] == k, 1.0, -1.0))
    result = _compared(problem, solvers, rows, gap, max_seconds, seed)
    return {
        "positive": names[k], "classes": len(names), "gap": gap, "runs": _runs(result, "error"),
    }  # fmt: skip


def _compared(
    problem: LinearProblem, solvers: Any, test: Any, gap: float, max_seconds: float, seed: int
) -> Comparison:
    if solvers is None:
        able = (name for name in SOLVERS if solver_from(name, problem).refusal(problem) is None)
        solvers = list(islice(able, COMPARED))
    return compare(problem, solvers, test=test, gap=gap, max_seconds=max_seconds, seed=seed)


def _runs(result: Comparison, measure: str) -> list[dict[str, Any]]:
    runs = []
    for run in result.runs:
        bound = np.asarray(result.suboptimality(run.trace["primal"]))
        runs.append({
            "solver": run.name, "status": run.status.value, "seconds": run.seconds,
            "epochs": run.epochs, "relative_gap": _number(run.certificate.relative_gap),
            "suboptimality": _number(float(result.suboptimality(run.certificate.primal))),
            "error_train": run.train[measure],
            "error_test": None if run.test is None else run.test[measure],
            "trace": _columns(run.trace, suboptimality=bound),
        })  # fmt: skip
    return runs


def _features(
    problem: LinearProblem, fit: Solutions, shown: list[str], feature_names: Sequence[str] | None
) -> list[dict[str, Any]]:
    """By how much a feature typically moves the score: |w_j| times its root mean square."""
    squares = problem.X.multiply(problem.X) if hasattr(problem.X, "multiply") else problem.X**2
    size = np.sqrt(np.asarray(squares.mean(axis=0), np.float64).ravel())
    tables = []
    for name, solution in zip(shown, fit.solutions, strict=True):
        effect = np.abs(solution.w) * size
        top = np.argsort(-effect, kind="stable")[:FEATURES]
        top = top[effect[top] > 0]
        tables.append({
            "class": name,
            "names": [f"column {j}" if feature_names is None else feature_names[j] for j in top],
            "weight": solution.w[top].tolist(), "effect": effect[top].tolist(),
        })  # fmt: skip
    return tables


def _errors(truth: Ints, predicted: Ints, names: list[str], rows: str) -> dict[str, Any]:
    counts = np.zeros((len(names), len(names)), np.int64)
    np.add.at(counts, (truth, predicted), 1)
    return {
        "rows": rows, "classes": names, "counts": counts.tolist(),
        "error": float(np.mean(truth != predicted)),
    }  # fmt: skip


def _widened(X: Any, n_features: int) -> Any:
    """With as many features as the training rows: what none of them had decides nothing."""
    if X.shape[1] == n_features:
        return X
    if not hasattr(X, "indptr"):
        raise ValueError(f"the test rows have {X.shape[1]} features, the others {n_features}")
    X = X.copy()
    X.resize((X.shape[0], n_features))
    return X


def _codes(y: ArrayLike, classes: NDArray[Any]) -> Ints:
    labels = np.asarray(y)
    codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    unknown = labels[classes[codes] != labels]
    if len(unknown):
        raise ValueError(
            f"the test rows have the label {_plain(unknown[0])}, which the training rows have not"
        )
    return codes


def _rows(test: tuple[Any, Ints] | None) -> int | None:
    return None if test is None else len(test[1])


def _plain(label: Any) -> str:
    if isinstance(label, int | float | np.number) and float(label).is_integer():
        return str(int(label))
    return str(label)


def _number(value: float) -> float | None:
    """JSON has no infinities."""
    return float(value) if math.isfinite(value) else None


def _numbers(values: Any) -> list[float | None]:
    return [_number(v) for v in values]


def _versions() -> dict[str, str]:
    import scipy

    return {
        "bridle": __version__, "Python": platform.python_version(), "NumPy": np.__version__,
        "SciPy": scipy.__version__, "system": f"{platform.system()} {platform.machine()}",
    }  # fmt: skip
