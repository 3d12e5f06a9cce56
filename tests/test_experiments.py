"""What each experiment claims holds on a scaled-down run, and its picture can be drawn."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
ROOT = Path(__file__).parents[1]
if not (ROOT / "experiments").is_dir():
    pytest.skip("needs the source tree", allow_module_level=True)
sys.path.insert(0, str(ROOT))

from experiments.__main__ import EXPERIMENTS  # noqa: E402
from experiments.common import corpus, save  # noqa: E402


@pytest.fixture(scope="module")
def data():
    return corpus(4000, 4000, cap=2.0)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.__name__.split(".")[-1])
def test_the_claim_holds(experiment, data, tmp_path):
    numbers = json.loads(json.dumps(experiment.measure(data), allow_nan=False))
    assert experiment.holds(numbers), experiment.claim(numbers)
    save(experiment, numbers, tmp_path)
    name = experiment.__name__.split(".")[-1]
    written = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert written["holds"]
    assert len(written["claim"]) > 40
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_gallery_has_every_picture():
    page = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    for experiment in EXPERIMENTS:
        name = experiment.__name__.split(".")[-1]
        assert f"(pictures/{name}.png)" in page, "run `make experiments gallery`"
        assert (ROOT / f"docs/pictures/{name}.png").is_file()
        assert (ROOT / f"docs/pictures/{name}-dark.png").is_file()
        assert f"![{experiment.SEEN}](" in page  # the alt text says what is seen
