"""Scores of label sequences: tokens, and segments as conlleval counts them.

A segment is a maximal run of labels of one type: B-NP I-NP I-NP. As in conlleval, a run may also
start with I- (after O or another type), end with E-, or be a single S-. B, I, E and S without a
type are of one type without a name; any other label without a hyphen is, at each token, a segment
of its own type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PREFIXES = ("O", "B", "I", "E", "S")
Segment = tuple[str, int, int]  # type, first position, position after the last


def segments(labels: Sequence[str]) -> Iterator[Segment]:
    """The segments of one sequence, in order."""
    start, before = 0, "O"
    kind: str | None = None  # of the open segment
    for t, label in enumerate([*labels, "O"]):
        prefix, hyphen, this = str(label).partition("-")
        if not hyphen and prefix not in PREFIXES:
            prefix, this = "S", str(label)
        inside = prefix != "O"
        ends = not inside or prefix in ("B", "S") or this != kind or before in ("E", "S")
        if kind is not None and ends:
            yield kind, start, t
            kind = None
        if inside and kind is None:
            start, kind = t, this
        before = prefix


@dataclass(frozen=True)
class Score:
    """Counts of segments: in the truth, in the answer, and in both."""

    true: int
    found: int
    correct: int

    @property
    def precision(self) -> float:
        """The part of what was found that is right."""
        return self.correct / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """The part of the truth that was found."""
        return self.correct / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = self.true + self.found
        return 2 * self.correct / total if total else 0.0


@dataclass(frozen=True)
class SequenceScores:
    """How good predicted sequences are: by token, by segment, and by type of segment."""

    tokens: int
    tokens_correct: int
    segments: Score
    by_type: dict[str, Score]

    @property
    def accuracy(self) -> float:
        """The part of the tokens whose label is right."""
        return self.tokens_correct / self.tokens if self.tokens else 0.0

    def as_dict(self) -> dict[str, float]:
        """For reports."""
        return {
            "tokens": self.tokens, "accuracy": self.accuracy,
            "precision": self.segments.precision, "recall": self.segments.recall,
            "f1": self.segments.f1, "segments": self.segments.true,
        }  # fmt: skip

    def __str__(self) -> str:
        """Laid out like conlleval's report."""
        s = self.segments
        lines = [
            f"processed {self.tokens} tokens with {s.true} phrases; found: {s.found} phrases; "
            f"correct: {s.correct}.",
            f"accuracy: {100 * self.accuracy:6.2f}%; {_percentages(s)}",
        ]
        for kind, score in sorted(self.by_type.items()):
            lines.append(f"{kind:>17}: {_percentages(score)}  {score.found}")
        return "\n".join(lines)


def _percentages(score: Score) -> str:
    return (
        f"precision: {100 * score.precision:6.2f}%; recall: {100 * score.recall:6.2f}%; "
        f"FB1: {100 * score.f1:6.2f}"
    )


def score_sequences(
    truth: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> SequenceScores:
    """Compare predicted with true label sequences."""
    if len(truth) != len(answers):
        raise ValueError(f"there are {len(truth)} true sequences but {len(answers)} answers")
    true: Counter[str] = Counter()
    found: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    tokens = right = 0
    for i, (y, answer) in enumerate(zip(truth, answers, strict=True)):
        if len(y) != len(answer):
            raise ValueError(f"sequence {i} has {len(y)} true labels but {len(answer)} answers")
        tokens += len(y)
        right += sum(a == b for a, b in zip(y, answer, strict=True))
        ours, theirs = set(segments(answer)), set(segments(y))
        true.update(kind for kind, _, _ in theirs)
        found.update(kind for kind, _, _ in ours)
        correct.update(kind for kind, _, _ in ours & theirs)
    by_type = {kind: Score(true[kind], found[kind], correct[kind]) for kind in true | found}
    total = Score(true.total(), found.total(), correct.total())
    return SequenceScores(tokens, right, total, by_type)
