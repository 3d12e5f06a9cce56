"""Errors that carry more than words."""

from __future__ import annotations

from typing import Any


class OracleError(RuntimeError):
    """An oracle failed or broke its promises; the message names the sample.

    sample: its position. solution: the best model found before, or None.

    Examples
    --------
    >>> class Broken(bridle.MultilabelOracle):
    ...     def argmax(self, x, w, truth=None): raise RuntimeError("no answer")
    >>> try:
    ...     bridle.StructuredSVM(Broken(1, 2)).fit([[1.0]], [(0, 1)])
    ... except bridle.OracleError as error:
    ...     print(error.sample)
    0
    """

    def __init__(self, sample: int, what: str) -> None:
        super().__init__(f"sample {sample}: {what}")
        self.sample = sample
        self.solution: Any = None


class Interruption(KeyboardInterrupt):
    """Ctrl-C, with what there is by then.

    solution: of `solve` the best Solution so far, of `path` the Path, of `compare` the Comparison,
    of an estimator's `fit` the fitted estimator; None if there is nothing yet.

    Examples
    --------
    >>> def stop(record):
    ...     raise KeyboardInterrupt  # as Ctrl-C does
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> try:
    ...     bridle.solve(problem, "pegasos", callbacks=[stop])
    ... except bridle.Interruption as interruption:
    ...     print(interruption.solution.status)
    Status.INTERRUPTED
    """

    def __init__(self, solution: Any = None) -> None:
        said = getattr(solution, "message", None) or getattr(solution, "message_", None)
        super().__init__(*([] if said is None else [said]))
        self.solution = solution


class ModelError(ValueError):
    """A file that is no model that can be read; the message says which and why.

    Examples
    --------
    >>> with open("not.model", "w") as file:
    ...     count = file.write("anything")
    >>> try:
    ...     bridle.load_model("not.model")
    ... except bridle.ModelError as error:
    ...     print(error)
    not.model...
    """


class LossError(ValueError):
    """A loss whose value and dual value contradict each other; the message names it.

    Examples
    --------
    >>> class Wrong(bridle.Hinge):
    ...     slope = lambda self, p: 2.0 * (p < 1.0)
    >>> try:
    ...     bridle.check_loss(Wrong())
    ... except bridle.LossError as error:
    ...     print(type(error).__name__)
    LossError
    """


class DeviceError(ValueError):
    """There is no GPU to compute on, or not for this; the message says why, in one line."""


class DivergenceError(ArithmeticError):
    """A solver's weights grow without end at the rate that was asked for."""
