"""The benchmark's table and picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.linear import Cell

HEAD = f"{'set':12} {'C':>7} {'threads':>7}"
WIDTH = 42  # of what `describe` says


def table(cells: Sequence[Cell], accuracies: Sequence[float], *, header: bool = False) -> str:
    """For each accuracy: our milliseconds, the fastest peer's and who it was, and the ratio."""
    lines = []
    if header:
        lines.append("milliseconds: ours (certified) / the fastest peer's (in hindsight) = ratio")
        lines.append(HEAD + "".join(f"   {f'e = {e:g}':^{WIDTH}}" for e in accuracies))
    for cell in cells:
        for who in sorted(
            {w for es in cell.entries.values() for w in es if w.startswith("bridle")}
        ):
            line = f"{cell.data:12} {cell.C:7g} {cell.n_threads:7d}"
            line += "".join(f"   {describe(cell, e, who):{WIDTH}}" for e in accuracies)
            lines.append(f"{line}  {who}")
    return "\n".join(lines)


def describe(cell: Cell, accuracy: float, who: str) -> str:
    entries = cell.entries.get(accuracy, {})
    ours, peer = entries.get(who), cell.fastest_peer(accuracy) if accuracy in cell.entries else None
    mine = f"{1e3 * ours.seconds:7.1f}" if ours else "      -"
    if peer is None:
        return f"{mine} / no peer gets there"
    ratio = f"{peer.seconds / ours.seconds:5.1f}x" if ours else "    -"
    return f"{mine} / {1e3 * peer.seconds:8.1f} {peer.contestant:17}{ratio}"


def picture(cells: Sequence[Cell], accuracies: Sequence[float], path: Path) -> None:
    """Ratios to the fastest peer, one panel for each accuracy; 1 is a tie."""
    import matplotlib as mpl
    import matplotlib.ticker

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(cell.data for cell in cells))
    settings = sorted({(cell.C, cell.n_threads) for cell in cells})
    height = 1.2 + 0.16 * len(names) * max(2, len(settings))
    figure, axes = plt.subplots(
        1, len(accuracies), figsize=(3.2 * len(accuracies) + 1.2, height), sharey=True, sharex=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    for axis, accuracy in zip(axes[0], accuracies, strict=True):
        for k, (C, n_threads) in enumerate(settings):
            mine = [c for c in cells if (c.C, c.n_threads) == (C, n_threads)]
            drawn = [(c, r) for c in mine if (r := best_ratio(c, accuracy)) is not None]
            axis.barh(
                [names.index(c.data) + 0.8 * (k + 0.5) / len(settings) - 0.4 for c, _ in drawn],
                [r - 1 for _, r in drawn], left=1, height=0.8 / len(settings),
                color=plt.cm.viridis(k / max(1, len(settings) - 1)),
                label=f"C = {C:g}, {n_threads} thread{'s' * (n_threads > 1)}",
            )  # fmt: skip
        axis.axvline(1, color="black", linewidth=0.8)
        axis.axvline(4, color="grey", linewidth=0.8, linestyle=":")
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1.0, 2.0, 4.0)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter("")
        axis.set(title=f"to {accuracy:g}", xlabel="times faster than the fastest peer")
    axes[0, 0].set_yticks(range(len(names)), names)
    axes[0, 0].invert_yaxis()
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def best_ratio(cell: Cell, accuracy: float) -> float | None:
    if accuracy not in cell.entries:
        return None
    ours = [who for who in cell.entries[accuracy] if who.startswith("bridle")]
    ratios = [r for who in ours if (r := cell.ratio(accuracy, who)) is not None]
    return max(ratios) if ratios else None
