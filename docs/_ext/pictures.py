"""Pictures for light and for dark pages: beside NAME.png lies NAME-dark.png.

The page shows the one that fits the colours that its reader has chosen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform


class Shades(SphinxTransform):
    """Pages say `![what is seen](pictures/name.png)`, which other readers of Markdown show, too."""

    default_priority = 400

    def apply(self, **options: Any) -> None:
        """Put the dark variant beside each picture that has one."""
        for picture in list(self.document.findall(nodes.image)):
            file = Path(picture["uri"])
            dark = str(file.with_name(f"{file.stem}-dark{file.suffix}"))
            if (Path(self.document["source"]).parent / dark).is_file():
                other = picture.deepcopy()
                other["uri"] = dark
                picture["classes"].append("only-light")
                other["classes"].append("only-dark")
                picture.parent.insert(picture.parent.index(picture) + 1, other)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_transform(Shades)
    return {"parallel_read_safe": True}
