"""Errors that carry more than words."""

from __future__ import annotations

from typing import Any


class OracleError(RuntimeError):
    """An oracle failed or broke its promises; the message names the sample.

    sample: its position. solution: the best model found before, or None.
    """

    def __init__(self, sample: int, what: str) -> None:
        super().__init__(f"sample {sample}: {what}")
        self.sample = sample
        self.solution: Any = None


class Interruption(KeyboardInterrupt):
    """Ctrl-C, with what there is by then.

    solution: of `solve` the best Solution so far, of `path` the Path, of `compare` the Comparison,
    of an estimator's `fit` the fitted estimator; None if there is nothing yet.
    """

    def __init__(self, solution: Any = None) -> None:
        said = getattr(solution, "message", None) or getattr(solution, "message_", None)
        super().__init__(*([] if said is None else [said]))
        self.solution = solution


class ModelError(ValueError):
    """A file that is no model that can be read; the message says which and why."""


class LossError(ValueError):
    """A loss whose value and dual value contradict each other; the message names it."""


class DeviceError(ValueError):
    """There is no GPU to compute on, or not for this; the message says why, in one line."""


class DivergenceError(ArithmeticError):
    """A solver's weights grow without end at the rate that was asked for."""
