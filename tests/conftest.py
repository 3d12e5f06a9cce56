"""What every test may rely on."""

from __future__ import annotations

import signal

import pytest
from bridle.objective.kernels import KERNELS
from bridle.objective.losses import LOSSES
from bridle.solvers import REGISTRY
from bridle.structured import ORACLES
from bridle.structured.ranking import LABELLING_LOSSES, RANKING_LOSSES

# A test run that was started in the background ignores Ctrl-C, and so would what it tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def registries():
    """What a test, or a code block of the documentation, registers is gone after it."""
    known = (KERNELS, LOSSES, REGISTRY, ORACLES, RANKING_LOSSES, LABELLING_LOSSES)
    before = [dict(registry) for registry in known]
    yield
    for registry, entries in zip(known, before, strict=True):
        registry.clear()
        registry.update(entries)
