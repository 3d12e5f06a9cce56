"""Pictures of convergence: the certified relative gap against time, on logarithmic axes.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart, lighter ones on a
dark page; each curve has a marker and a line style of its own besides. All pictures of the project
have this look: `look()` for figures that are made, `curve` for what is drawn. Needs matplotlib, the
`plot` extra.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.files.atomic import replacing
from bridle.objective.answers import headline
from bridle.objective.point import supporting

if TYPE_CHECKING:
    from bridle.objective.certificate import Trace


# Okabe & Ito without yellow, which is too faint on white; on a dark page the same hues, lighter.
LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DARK = ("#4DA6E8", "#FF8A4C", "#2CC79B", "#E5A5CB", "#F2BE4A", "#A5DDFB", "#FFFFFF")
PAGES = {False: ("#ffffff", "#1a1a1a"), True: ("#131416", "#d8d8d8")}  # paper and ink

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS_PER_CURVE = 12
FAINT = "0.5"  # of what is beside the matter, on either page


def look(dark: bool = False) -> AbstractContextManager[None]:
    """The settings of matplotlib that all pictures are made with, for a light or a dark page."""
    from matplotlib import rc_context

    paper, ink = PAGES[dark]
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    settings: dict[Any, Any] = {
        "font.size": 13, "axes.spines.top": False, "axes.spines.right": False,
        "legend.frameon": False,
    }  # fmt: skip
    papered = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
    settings |= dict.fromkeys(inked, ink) | dict.fromkeys(papered, paper)
    return rc_context(settings)


def ink() -> str:
    """The colour of text where the picture is being made."""
    from matplotlib import rcParams

    return str(rcParams["text.color"])


def colour(style: int) -> str:
    """That of a curve, on the page at hand."""
    from matplotlib.colors import to_rgb

    colours = DARK if sum(to_rgb(ink())) > 1.5 else LIGHT
    return colours[style % len(colours)]


def curve(ax: Any, x: Any, y: Any, style: int, label: str | None = None, **more: Any) -> None:
    """A curve with a colour, a marker and a dash of its own."""
    drawn: dict[str, Any] = {
        "color": colour(style), "marker": MARKERS[style % len(MARKERS)],
        "linestyle": LINES[style % len(LINES)], "linewidth": 1.7, "markersize": 5,
        "markevery": max(1, len(x) // MARKERS_PER_CURVE),
    }  # fmt: skip
    ax.plot(x, y, label=label, **drawn | more)


def ruled(ax: Any) -> None:
    """With lines behind the curves, to read values by."""
    ax.grid(True, which="major", color=FAINT, alpha=0.25, linewidth=0.8)
    ax.set_axisbelow(True)


def _goal(ax: Any, value: float) -> None:
    ax.axhline(value, color=FAINT, linewidth=1, linestyle=(0, (1, 2)))


def plot_trace(trace: Trace, ax: Any = None, *, label: str | None = None, style: int = 0) -> Any:
    """Draw one run's certified gap against its solver's seconds; returns the axes.

    style: a number; curves with different numbers can be told apart.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> axes = bridle.plot_trace(bridle.solve(problem, "pegasos").trace, label="pegasos")
    >>> axes.figure.savefig("run.png")
    """
    if ax is None:
        ax = _pyplot().subplots(figsize=(7, 4.5), layout="constrained")[1]
    seconds, gap = trace["seconds_solver"], trace["relative_gap"]
    shown = (seconds > 0) & (gap > 0) & np.isfinite(gap)  # a logarithm has no place for the rest
    curve(ax, seconds[shown], gap[shown], style, label)
    ax.set(
        xscale="log", yscale="log",
        xlabel="solver time (seconds)", ylabel="certified relative gap (P - D) / P",
    )  # fmt: skip
    ruled(ax)
    return ax


def plot_convergence(
    traces: Mapping[str, Trace], ax: Any = None, *, goal: float | None = None, title: str = ""
) -> Any:
    """Draw several runs into one picture, named by the keys; returns the axes.

    goal: the gap that was asked for, as a horizontal line.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> traces = {name: bridle.solve(problem, name).trace for name in ("dcd", "pegasos")}
    >>> bridle.plot_convergence(traces, goal=1e-3).figure.savefig("runs.png")
    """
    if not traces:
        raise ValueError("there is no trace to draw")
    for style, (name, trace) in enumerate(traces.items()):
        ax = plot_trace(trace, ax, label=name, style=style)
    if goal:
        _goal(ax, goal)
        ax.annotate(
            f"asked for: {goal:g}", (0.005, goal), xycoords=("axes fraction", "data"),
            xytext=(0, 3), textcoords="offset points", color=FAINT, fontsize="small",
        )  # fmt: skip
    ax.set_title(title)
    ax.legend(frameon=False, handlelength=4)
    return ax


def save_convergence(
    path: str | os.PathLike[str], traces: Mapping[str, Trace], **options: Any
) -> None:
    """`plot_convergence` into a file; its suffix chooses the format."""
    figure = _figure((7.5, 4.8))
    plot_convergence(traces, figure.subplots(), **options)
    _save(figure, path)


def _figure(size: tuple[float, float]) -> Any:
    """A figure that no window system knows of."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Any, path: str | os.PathLike[str]) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    image = io.BytesIO()
    figure.savefig(image, format=Path(path).suffix.lstrip(".") or None, dpi=150)
    with replacing(path) as file:
        file.write(image.getbuffer())


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'bridle[plot]'") from error
    return pyplot


def plot_path(path: Any, errors: Mapping[str, Any], axes: Any = None) -> Any:
    """Errors over C, and below them the gap that each solution certifies around its own C.

    errors: name -> one value for each solution. Returns the two axes.
    """
    if axes is None:
        axes = _pyplot().subplots(2, 1, sharex=True, figsize=(7, 6), layout="constrained")[1]
    above, below = axes
    C = [point.C for point in path]
    of_labels = all(name.startswith("error") for name in errors)
    for style, (name, values) in enumerate(errors.items()):
        shown = np.asarray(values) * (100 if of_labels else 1)
        curve(above, C, shown, style, name.replace("_", " "), markevery=1)
    for k, point in enumerate(path):
        inside = np.geomspace(point.low, max(point.high, point.low * (1 + 1e-9)), 60)
        gaps = [point.sums.certificate(c).relative_gap for c in inside]
        below.plot(inside, gaps, color=colour(k % 2), linewidth=1.2)
    _goal(below, path.gap)
    above.set(xscale="log", ylabel="error (%)" if of_labels else "error")
    above.legend(frameon=False)
    below.set(xscale="log", xlabel="C", ylabel="certified relative gap", ylim=(0, 1.15 * path.gap))
    for ax in axes:
        ruled(ax)
    return axes


def save_path(path: str | os.PathLike[str], solutions: Any, errors: Mapping[str, Any]) -> None:
    """`plot_path` into a file; its suffix chooses the format."""
    figure = _figure((7, 6))
    plot_path(solutions, errors, figure.subplots(2, 1, sharex=True))
    _save(figure, path)


def plot_comparison(comparison: Any, axes: Any) -> None:
    """Gap, suboptimality and, if there is one, test error (rows) over seconds and epochs (columns).

    axes: two columns; three rows if the runs have test errors, else two.
    """
    measure = headline(comparison.problem.loss)
    of_labels = measure == "error"
    for style, run in enumerate(comparison.runs):
        trace = run.trace
        suboptimality = comparison.suboptimality(trace["primal"])
        values = [trace["relative_gap"], suboptimality]
        if len(axes) > 2:
            values.append(trace[f"validation_{measure}"] * (100 if of_labels else 1))
        for across, key in enumerate(("seconds_solver", "epoch")):
            for down, ax in enumerate(axes[:, across]):
                x, y = trace[key], values[down]
                shown = (x > 0) & (y > 0) & np.isfinite(y)
                # Each point of a peer is a run of its own, at another tolerance.
                own = {"linestyle": "none", "markersize": 8, "markevery": 1} if run.is_peer else {}
                curve(ax, x[shown], y[shown], style, run.name, **own)
    names = ["certified gap (P - D) / P", "suboptimality P / D* - 1"]
    names.append("test error (%)" if of_labels else f"test {measure.replace('_', ' ')}")
    for down, row in enumerate(axes):
        row[0].set_ylabel(names[down])
        for ax in row:
            ax.set(xscale="log", yscale="log")
            ruled(ax)
            if down < 2:
                _goal(ax, comparison.gap)
            elif of_labels:
                ax.set_ylim(top=min(60.0, ax.get_ylim()[1]))  # w = 0 gets every row wrong
                _plain_percentages(ax)
    axes[-1, 0].set_xlabel("solver time (seconds)")
    axes[-1, 1].set_xlabel("epochs")


def _plain_percentages(ax: Any) -> None:
    """Numbers as people write them: errors rarely span a power of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0), numticks=12))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def save_comparison(path: str | os.PathLike[str], comparison: Any, *, title: str = "") -> None:
    """`plot_comparison` into a file; its suffix chooses the format."""
    rows = 3 if any(run.test is not None for run in comparison.runs) else 2
    figure = _figure((10, 3.2 * rows + 0.8))
    axes = figure.subplots(rows, 2, sharex="col", sharey="row")
    plot_comparison(comparison, axes)
    figure.suptitle(title)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(6, len(labels)), frameon=False,
        handlelength=4,
    )  # fmt: skip
    _save(figure, path)


def plot_boundary(
    model: Any, X: Any, y: Any, ax: Any = None, *, resolution: int = 300, title: str = ""
) -> Any:
    """Draw what a classifier of two features does, and the rows that it was trained on.

    Two classes: the boundary (solid), the margins at scores of -1 and +1 (dashed). Several: the
    region of each class. Support vectors are ringed: the rows with a dual variable where the model
    knows them, else those on the margin or on its wrong side. Returns the axes.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = bridle.LinearSVC().fit(X, X[:, 0] > 0)
    >>> bridle.plot_boundary(model, X, X[:, 0] > 0, resolution=50).figure.savefig("boundary.png")
    """
    X, y = np.asarray(X, np.float64), np.asarray(y)
    if X.ndim != 2 or X.shape[1] != 2:
        raise ValueError(f"a picture has two features, X has shape {X.shape}")
    if not hasattr(model, "classes_"):
        raise ValueError(
            f"a picture needs a fitted classifier: this {type(model).__name__} is none"
        )
    if ax is None:
        ax = _pyplot().subplots(figsize=(6.5, 5.2), layout="constrained")[1]
    classes = np.asarray(model.classes_)
    across, up = (_span(X[:, k], resolution) for k in (0, 1))
    grid = np.column_stack([m.ravel() for m in np.meshgrid(across, up)])
    columns = getattr(model, "feature_names_in_", None)
    grid = _framed(grid, columns)
    regions = np.searchsorted(classes, model.predict(grid)).reshape(len(up), len(across))
    colours = [colour(k) for k in range(len(classes))]
    ax.contourf(
        across, up, regions, levels=np.arange(len(classes) + 1) - 0.5, colors=colours, alpha=0.15
    )
    if len(classes) == 2:
        scores = model.decision_function(grid).reshape(regions.shape)
        lines = ax.contour(
            across, up, scores, levels=[-1, 0, 1], colors=ink(), linewidths=[1, 1.8, 1],
            linestyles=["--", "-", "--"],
        )  # fmt: skip
        ax.clabel(lines, fmt={-1: "-1", 0: "0", 1: "+1"}, fontsize="small")
    else:
        for k in range(len(classes)):
            inside = (regions == k).astype(float)
            ax.contour(across, up, inside, levels=[0.5], colors=ink(), linewidths=1.2)
    for k, label in enumerate(classes):
        rows = y == label
        ax.scatter(
            *X[rows].T, s=26, color=colours[k], marker=MARKERS[k % len(MARKERS)], label=str(label),
            edgecolor="white", linewidth=0.5, zorder=3,
        )  # fmt: skip
    ringed = support_vectors(model, X, y)
    ax.scatter(
        *X[ringed].T, s=95, facecolor="none", edgecolor=ink(), linewidth=0.9, zorder=4,
        label=f"support vectors ({len(ringed)})",
    )  # fmt: skip
    names = ("feature 0", "feature 1") if columns is None else columns
    ax.set(xlabel=names[0], ylabel=names[1], title=title)
    ax.legend(loc="best", fontsize="small", framealpha=0.85)
    return ax


def support_vectors(model: Any, X: Any, y: Any) -> Any:
    """The rows that hold the boundary: by their dual variables, or else by their margins."""
    inner = model[-1] if hasattr(model, "steps") else model
    if hasattr(inner, "support_"):
        return np.asarray(inner.support_)
    signed = getattr(inner, "dual_coef_", None)
    if signed is not None and signed.shape[1] == len(X):
        return np.flatnonzero(supporting(signed).any(axis=0))
    from bridle.models.deciding import pairs
    from bridle.rows.scoring import function_scores

    framed = _framed(X, getattr(model, "feature_names_in_", None))
    scores = model.decision_function(framed)
    codes = np.searchsorted(model.classes_, y)
    if scores.ndim == 1:
        return np.flatnonzero(np.where(codes == 1, 1, -1) * scores <= 1 + 1e-3)
    multi_class = getattr(inner, "multi_class", "crammer_singer")
    if multi_class == "ovo":  # votes are no margins: the functions themselves
        before = len(getattr(model, "steps", ())) > 1
        inputs = model[:-1].transform(framed) if before else framed
        scores = function_scores(np.asarray(inputs, np.float64), inner.coef_, inner.intercept_)
        sides = np.array(pairs(len(model.classes_)))
        signs = (codes[:, None] == sides[:, 0]) * 1.0 - (codes[:, None] == sides[:, 1])
        return np.flatnonzero(((signs != 0) & (signs * scores <= 1 + 1e-3)).any(axis=1))
    if multi_class == "ovr":  # a row is in every problem, in one of them as the class
        signs = np.where(codes[:, None] == np.arange(scores.shape[1]), 1.0, -1.0)
        return np.flatnonzero((signs * scores <= 1 + 1e-3).any(axis=1))
    own = scores[np.arange(len(codes)), codes]
    others = scores.copy()
    others[np.arange(len(codes)), codes] = -np.inf
    return np.flatnonzero(own - others.max(axis=1) <= 1 + 1e-3)


def _framed(X: Any, columns: Any) -> Any:
    """With the names that the model was fitted with, so that scikit-learn does not complain."""
    if columns is None:
        return X
    import pandas

    return pandas.DataFrame(X, columns=columns)


def _span(values: Any, resolution: int) -> Any:
    margin = 0.08 * (values.max() - values.min() or 1.0)
    return np.linspace(values.min() - margin, values.max() + margin, resolution)
