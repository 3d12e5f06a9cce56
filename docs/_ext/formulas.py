"""Formulas by MathJax, whose files come from a package and stand beside the pages.

So no network is needed, neither to build the site nor to read it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from sphinx.util.fileutil import copy_asset

PROGRAM = "tex-chtml.js"
FONTS = "output/chtml/fonts/woff-v2"


def copy_mathjax(app: Any, failure: Exception | None) -> None:
    """The one program that the pages load, and its fonts: of 24 MB these are one and a half."""
    package = importlib.import_module("sphinx-mathjax-offline")
    source = Path(package.__path__[0]) / "static" / "mathjax"
    if failure is None:
        made = Path(app.outdir) / "_static" / "mathjax"
        copy_asset(source / PROGRAM, made)
        copy_asset(source / FONTS, made / FONTS)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.setup_extension("sphinx.ext.mathjax")
    app.config.mathjax_path = f"mathjax/{PROGRAM}"
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True}
