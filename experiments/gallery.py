"""The gallery of the documentation, from what `make experiments` has left in out/.

    python -m experiments.gallery [out] [docs]

Pictures are drawn anew from the numbers, for light and for dark pages, each with its claim below it
as text. What `--data NAME` has left in out/NAME is told beside it, true or not.
"""

from __future__ import annotations

import inspect
import json
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.pictures import save_pair

from experiments.__main__ import EXPERIMENTS
from experiments.common import name_of
from experiments.real import SETS

HEAD = """# Gallery

The pictures and tables on which the literature of these solvers rests, each from one command:

    python -m experiments NAME

Below each picture is what it claims of generated rows. The claim is checked whenever the picture is
made, and by a test on a smaller run. Where it was tried on real rows (`--data a9a`, ...), what came
out is below it, also where the claim does not hold. Seconds are processor time on two cores shared
with other work: read their order, not their size. How to run them on your own data:
[experiments](experiments.md).
"""


def entry(experiment: ModuleType, numbers: dict[str, Any], real: list[dict[str, Any]]) -> str:
    """Title, picture, claim and table of generated rows, then those of real ones."""
    title, _, rest = inspect.cleandoc(experiment.__doc__ or "").partition("\n")
    title, name = title.rstrip("."), name_of(experiment)
    if not experiment.holds(numbers):
        raise SystemExit(f"the claim of {name} does not hold: make it again, or find out why")
    parts = [
        f"## {title}", rest.strip().replace("*", r"\*"),
        f"![{experiment.SEEN}](pictures/{name}.png)",
        f"**Claim.** {experiment.claim(numbers)} (`{name}`)", table(experiment, numbers),
    ]  # fmt: skip
    for found in real:
        verdict = "holds" if experiment.holds(found) else "does not hold"
        name = found["data"].partition(",")[0]
        parts.append(f"**On {name} it {verdict}.** {experiment.claim(found)}")
        parts.append(table(experiment, found))
    return "\n\n".join(part for part in parts if part) + "\n"


def table(experiment: ModuleType, numbers: dict[str, Any]) -> str:
    return experiment.table(numbers).strip() if hasattr(experiment, "table") else ""


def main(out: str = "out", docs: str = "docs") -> None:
    pictures = Path(docs) / "pictures"
    pictures.mkdir(exist_ok=True)
    entries = [HEAD]
    for experiment in EXPERIMENTS:
        file = f"{name_of(experiment)}.json"
        numbers = json.loads((Path(out) / file).read_text("utf-8"))
        found = [Path(out) / name / file for name in SETS]
        real = [json.loads(path.read_text("utf-8")) for path in found if path.exists()]
        entries.append(entry(experiment, numbers, real))
        draw = partial(experiment.draw, numbers)
        save_pair(draw, experiment.HEIGHT, pictures / f"{name_of(experiment)}.png")
    (Path(docs) / "gallery.md").write_text("\n".join(entries), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
