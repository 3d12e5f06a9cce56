"""Pictures of convergence: what is drawn is what was recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bridle.objective.certificate import Record, Trace

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def trace(factor: float) -> Trace:
    return Trace([
        Record(epoch=k, seconds_solver=0.1 * k * factor, seconds_certify=0.0, primal=2.0,
               dual=2.0 - 1.5 * 0.5**k)
        for k in range(6)
    ])  # fmt: skip


def test_plot_trace_draws_gap_against_seconds() -> None:
    from matplotlib import pyplot

    one = trace(1.0)
    ax = one.plot()
    (line,) = ax.lines
    # The first record, at zero seconds, has no place on a logarithmic axis.
    np.testing.assert_allclose(line.get_xdata(), one["seconds_solver"][1:])
    np.testing.assert_allclose(line.get_ydata(), one["relative_gap"][1:])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert "seconds" in ax.get_xlabel()
    assert "gap" in ax.get_ylabel()
    pyplot.close(ax.figure)


def test_curves_differ_in_colour_marker_and_line(tmp_path: Path) -> None:
    from bridle.study.plots import plot_convergence, save_convergence
    from matplotlib.figure import Figure

    traces = {f"solver {k}": trace(k + 1.0) for k in range(5)}
    ax = plot_convergence(traces, Figure().subplots(), goal=1e-2, title="five")
    *curves, goal = ax.lines
    for look in ("get_color", "get_marker"):
        assert len({getattr(curve, look)() for curve in curves}) == 5
    assert len({str(curve._dash_pattern) for curve in curves}) == 5
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(traces)
    assert goal.get_ydata()[0] == 1e-2
    save_convergence(tmp_path / "p.png", traces)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="no trace"):
        plot_convergence({})


def test_an_optimal_record_is_left_out_rather_than_wrong() -> None:
    from bridle.study.plots import plot_trace
    from matplotlib.figure import Figure

    exact = Trace([*trace(1.0), Record(6, 1.0, 0.0, 2.0, 2.0)])
    (line,) = plot_trace(exact, Figure().subplots()).lines
    assert np.min(line.get_ydata()) > 0
