"""The gallery of the documentation, from what `make experiments` has left in out/.

    python -m experiments.gallery [out] [docs]

Pictures are drawn anew from the numbers, in few colours so that they are small, each with its claim
below it as text.
"""

from __future__ import annotations

import inspect
import io
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from experiments.__main__ import EXPERIMENTS
from experiments.common import name_of, picture

COLOURS = 48
HEAD = """# Gallery

The pictures and tables on which the literature of these solvers rests, each from one command:

    python -m experiments NAME

Below each picture is what it claims. The claim is checked whenever the picture is made, and by a
test on a smaller run. Seconds are those of two cores shared with other work: read their order, not
their size. How to run them on your own data: [experiments](experiments.md).
"""


def entry(experiment: ModuleType, numbers: dict[str, Any]) -> str:
    title, _, rest = inspect.cleandoc(experiment.__doc__ or "").partition("\n")
    name = name_of(experiment)
    if not numbers["holds"]:
        raise SystemExit(f"the claim of {name} does not hold: make it again, or find out why")
    about = rest.strip().replace("*", r"\*")
    about = f"{about}\n\n" if about else ""
    return (
        f"## {title.rstrip('.')}\n\n{about}![{name}](pictures/{name}.png)\n\n"
        f"**Claim.** {numbers['claim']} (`{name}`)\n"
    )


def save_small(experiment: ModuleType, numbers: dict[str, Any], path: Path) -> None:
    from PIL import Image

    drawn = io.BytesIO()
    picture(experiment, numbers, drawn)
    image = Image.open(drawn).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


def main(out: str = "out", docs: str = "docs") -> None:
    pictures = Path(docs) / "pictures"
    pictures.mkdir(exist_ok=True)
    entries = [HEAD]
    for experiment in EXPERIMENTS:
        numbers = json.loads((Path(out) / f"{name_of(experiment)}.json").read_text("utf-8"))
        entries.append(entry(experiment, numbers))
        save_small(experiment, numbers, pictures / f"{name_of(experiment)}.png")
    (Path(docs) / "gallery.md").write_text("\n".join(entries), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
