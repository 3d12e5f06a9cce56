"""A check that an oracle tells the truth about its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.structured.sparse import SparseVector, sparse_vector


@dataclass(frozen=True)
class OracleReport:
    """What `check_oracle` found wrong; true if that is nothing."""

    problems: tuple[str, ...]
    n_samples: int
    n_brute_force: int  # samples whose argmax was compared with all outputs
    notes: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        lines = [
            f"{self.n_samples} samples, {self.n_brute_force} of them against brute force: "
            + ("no problems" if self else f"{len(self.problems)} problems")
        ]
        return "\n".join([*lines, *(f"- {line}" for line in (*self.problems, *self.notes))])


def check_oracle(
    oracle: Any,
    samples: Iterable[tuple[Any, Any]],
    *,
    n_weights: int = 5,
    most_outputs: int = 20_000,
    seed: int = 0,
) -> OracleReport:
    """Tell the author of an oracle what is wrong with it.

    For each sample (x, y) and a few random w: features of the right size and finite; a loss that is
    finite, not negative, and 0 at the truth; an argmax that is the same twice, not worse than the
    truth, and, where the oracle has `outputs(x)` with at most `most_outputs` of them, exactly as
    good as the best by brute force, with and without the loss, and rescaled if there is a
    `slack_argmax`. An `argmax_batch` must be as good as `argmax`. Of each kind of mistake the first
    of a sample is told.

    Examples
    --------
    >>> oracle = bridle.MultilabelOracle(n_inputs=2, n_labels=2)
    >>> print(bridle.check_oracle(oracle, [([0.0, 1.0], (0, 1))]))
    1 samples, 1 of them against brute force: no problems
    """
    rng = np.random.default_rng(seed)
    problems: list[str] = []
    notes: list[str] = []
    n_features = getattr(oracle, "n_features", None)
    if not isinstance(n_features, int | np.integer) or n_features < 1:
        return OracleReport(("n_features must be a positive integer",), 0, 0)
    for name in ("features", "loss", "argmax"):
        if not callable(getattr(oracle, name, None)):
            problems.append(f"the method {name} is missing")
    if problems:
        return OracleReport(tuple(problems), 0, 0)
    if not hasattr(oracle, "outputs"):
        notes.append("without a method outputs(x) the argmax was not compared with brute force")
    checked: list[_Sample] = []
    brute = 0
    for i, (x, y) in enumerate(samples):
        sample = _Sample(oracle, int(n_features), i, x, y, problems)
        checked.append(sample)
        weights = [np.zeros(n_features), *rng.normal(size=(n_weights, n_features))]
        brute += sample.check(weights, most_outputs)
    if not checked:
        problems.append("there are no samples to check it on")
    elif not problems and hasattr(oracle, "argmax_batch"):
        _check_batch(oracle, checked, rng.normal(size=(n_weights, n_features)), problems)
    return OracleReport(tuple(dict.fromkeys(problems)), len(checked), brute, tuple(notes))


def _check_batch(
    oracle: Any, samples: Sequence[_Sample], weights: Iterable[Array], problems: list[str]
) -> None:
    """All samples at once must be answered as well as one by one."""
    xs, truths = [sample.x for sample in samples], [sample.y for sample in samples]
    for w in weights:
        for kind in ("predict", "margin"):
            before = w.copy()
            try:
                given = (xs, w) if kind == "predict" else (xs, w, truths)
                answers = list(oracle.argmax_batch(*given))
            except Exception as error:
                problems.append(f"argmax_batch ({kind}): {_short(error)}")
                return
            if not np.array_equal(before, w):
                problems.append(f"argmax_batch ({kind}) changes w")
            if len(answers) != len(samples):
                problems.append(
                    f"argmax_batch ({kind}) gave {len(answers)} answers to {len(samples)} inputs"
                )
                return
            for sample, answer in zip(samples, answers, strict=True):
                sample.compare_batch(kind, w, answer)


@dataclass
class _Sample:
    oracle: Any
    n_features: int
    i: int
    x: Any
    y: Any
    problems: list[str]
    said: set[str] = field(default_factory=set)  # kinds of mistakes

    def check(self, weights: Sequence[Array], most_outputs: int) -> bool:
        """Returns whether brute force was used."""
        truth = self.features(self.y)
        self.loss(self.y, at_truth=True)
        if truth is None:
            return False
        outputs = self.outputs(most_outputs)
        for w in weights:
            for kind in ("predict", "margin", "slack"):
                if kind != "slack" or hasattr(self.oracle, "slack_argmax"):
                    self.check_argmax(kind, w, outputs)
        return outputs is not None

    def say(self, what: str, detail: str = "") -> None:
        """The details, such as numbers, of the first mistake of a kind."""
        if what not in self.said:
            self.said.add(what)
            self.problems.append(f"sample {self.i}: {what}{detail}")

    def features(self, y: Any) -> SparseVector | None:
        try:
            return sparse_vector(self.oracle.features(self.x, y), self.n_features)
        except Exception as error:
            self.say(f"features: {_short(error)}")
            return None

    def loss(self, other: Any, *, at_truth: bool = False) -> float | None:
        try:
            loss = float(self.oracle.loss(self.y, other))
        except Exception as error:
            self.say(f"loss: {_short(error)}")
            return None
        if not np.isfinite(loss) or loss < 0:
            self.say(f"the loss must be finite and not negative, got {loss}")
            return None
        if at_truth and loss != 0:
            self.say(f"the loss of the truth must be 0, got {loss}")
        return loss

    def outputs(self, most: int) -> list[Any] | None:
        if not hasattr(self.oracle, "outputs"):
            return None
        found = []
        try:
            for output in self.oracle.outputs(self.x):
                found.append(output)
                if len(found) > most:
                    return None
        except Exception as error:
            self.say(f"outputs: {_short(error)}")
            return None
        return found

    def ask(self, kind: str, w: Array) -> Any:
        if kind == "predict":
            return self.oracle.argmax(self.x, w)
        if kind == "margin":
            return self.oracle.argmax(self.x, w, self.y)
        return self.oracle.slack_argmax(self.x, w, self.y)

    def value(self, kind: str, w: Array, y: Any) -> float | None:
        features, loss = self.features(y), self.loss(y)
        truth = self.features(self.y)
        if features is None or loss is None or truth is None:
            return None
        if kind == "predict":
            return features.dot(w)
        if kind == "margin":
            return loss + features.dot(w)
        return loss * (1 - truth.dot(w) + features.dot(w))

    def check_argmax(self, kind: str, w: Array, outputs: list[Any] | None) -> None:
        name = "slack_argmax" if kind == "slack" else f"argmax ({kind})"
        before = w.copy()
        try:
            answer, again = self.ask(kind, w), self.ask(kind, w)
        except Exception as error:
            self.say(f"{name}: {_short(error)}")
            return
        if not np.array_equal(before, w):
            self.say(f"{name} changes w")
        value, other = self.value(kind, w, answer), self.value(kind, w, again)
        if value is None or other is None:
            return
        if value != other:
            self.say(f"{name} gave two different answers to the same question")
        candidates = [self.y] if outputs is None else [self.y, *outputs]
        values = [v for v in (self.value(kind, w, y) for y in candidates) if v is not None]
        best = max(values)
        rounding = 1e-9 * max(1.0, abs(best))
        if best > value + rounding:
            how = "the truth is better" if outputs is None else "brute force found a better output"
            self.say(f"{name} is not the argmax: {how}", f", {best:.6g} instead of {value:.6g}")
        elif outputs is not None and value > best + rounding:
            self.say(
                f"{name} gives an answer that is better than all of outputs(x): it is not one of "
                f"them, or outputs(x) lacks some", f", {value:.6g} instead of {best:.6g}"
            )  # fmt: skip

    def compare_batch(self, kind: str, w: Array, answer: Any) -> None:
        """An answer of argmax_batch against that of argmax, which is right."""
        value, alone = (self.value(kind, w, y) for y in (answer, self.ask(kind, w)))
        if value is None or alone is None or abs(value - alone) <= 1e-9 * max(1.0, abs(alone)):
            return
        self.say(f"argmax_batch ({kind}) differs from argmax", f": {value:.6g} and {alone:.6g}")


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
