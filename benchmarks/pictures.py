"""Pictures for the pages, light and dark: one look, as wide as a phone can show."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridle.study.plots import look, ruled

WIDTH = 6.4  # inches: what has more to show has it one below the other
SHADES = 48


def drawn(draw: Callable[[Any], None], height: float, below: str = "", dark: bool = False) -> bytes:
    """A PNG of what `draw` puts into a figure, with some words below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    file = io.BytesIO()
    with look(dark):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        for ax in figure.axes:
            ruled(ax)
        if below:
            figure.supxlabel(below, fontsize=11, x=0.02, ha="left")
        figure.savefig(file, format="png", dpi=150)
    return file.getvalue()


def save_pair(draw: Callable[[Any], None], height: float, path: Path) -> None:
    """NAME.png, and NAME-dark.png beside it, in few colours so that they are small."""
    from PIL import Image

    for name, dark in ((path.name, False), (f"{path.stem}-dark{path.suffix}", True)):
        image = Image.open(io.BytesIO(drawn(draw, height, dark=dark))).convert("RGB")
        few = image.quantize(SHADES, dither=Image.Dither.NONE)
        few.save(path.with_name(name), optimize=True)
