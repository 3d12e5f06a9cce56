"""What every test may rely on."""

from __future__ import annotations

import signal

import pytest
from bridle.objective.kernels import KERNELS
from bridle.objective.losses import LOSSES
from bridle.rows.cuda.device import missing
from bridle.solvers import REGISTRY
from bridle.structured import ORACLES
from bridle.structured.ranking import LABELLING_LOSSES, RANKING_LOSSES

# A test run that was started in the background ignores Ctrl-C, and so would what it tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """scikit-learn's checks, and tests for which it does not matter, rank rows without queries."""
    config.addinivalue_line("filterwarnings", "ignore:there is no qid:UserWarning")


@pytest.fixture(autouse=True)
def registries():
    """What a test, or a code block of the documentation, registers is gone after it."""
    known = (KERNELS, LOSSES, REGISTRY, ORACLES, RANKING_LOSSES, LABELLING_LOSSES)
    before = [dict(registry) for registry in known]
    yield
    for registry, entries in zip(known, before, strict=True):
        registry.clear()
        registry.update(entries)


def pytest_collection_modifyitems(items):
    """What needs a GPU says why it is not run."""
    marked = [item for item in items if item.get_closest_marker("cuda")]
    why = missing() if marked else None
    if why is not None:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=why))
