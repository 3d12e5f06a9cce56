"""What a ranking loss is, and its oracle for all queries at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from bridle import _core
from bridle.errors import OracleError
from bridle.matrix.arrays import Array
from bridle.objective.registry import Registry
from bridle.structured.ranking import LABELLING_LOSSES, RANKING_LOSSES
from numpy.typing import ArrayLike, NDArray

Offsets = NDArray[np.int64]


@dataclass(frozen=True)
class RankingLoss:
    """A loss of rankings. A subclass has a `name` and an `answer`, or the core's name of one.

    Every psi is a sum of documents, psi(y) = sum_i c_i x_i, so that an output of a query is, to the
    problem, a coefficient c_i for each document and a loss.
    normalise: whether psi, where it is a sum over P N pairs, is divided by their number. Papers do
    both; undivided, a long query asks for a larger margin, and another C is best.

    Examples
    --------
    >>> import numpy as np
    >>> class Pair(bridle.RankingLoss):  # queries of a relevant document and another one
    ...     name = "pair"
    ...     def answer(self, grades, scores):
    ...         c = np.where(grades > 0, 1.0, -1.0)
    ...         return (c, 1.0) if c @ scores < 1.0 else (0.0 * c, 0.0)
    >>> ranker = bridle.RankSVM(Pair()).fit([[1.0], [0.0]], [1, 0], qid=[1, 1])
    >>> ranker.certificate_.relative_gap <= 1e-3
    True
    """

    normalise: bool = field(default=True, kw_only=True)

    name: ClassVar[str] = ""
    compiled: ClassVar[str | None] = None  # the core's name of its oracle
    graded: ClassVar[bool] = False  # all grades count, rather than relevant (1) or not (0)
    classifies: ClassVar[bool] = False  # plain classification may ask for it, too
    shifts: ClassVar[bool] = False  # it depends on a common shift of the scores: on an intercept
    over_pairs: ClassVar[bool] = False  # psi is a mean over P N pairs of relevant and others

    def __post_init__(self) -> None:
        if not (self.normalise or self.over_pairs):
            hint = "; its undivided form is pairs-sum" if self.name == "pairs" else ""
            raise ValueError(f"the features of {self} are not divided by a number of pairs{hint}")

    def answer(self, grades: Array, scores: Array) -> tuple[ArrayLike, float]:
        """The output of largest loss - sum_i c_i scores_i: its coefficients c and its loss.

        Of one query, which has documents of different grades. It must be the maximum, exactly: the
        certificate rests on it. The truth, c = 0 with loss 0, is one of the outputs.
        """
        raise NotImplementedError

    def metric(self, grades: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None) -> Array:
        """What RankSVM.score is the mean of: one value for each query, better if larger."""
        raise NotImplementedError(f"the loss {self} has no metric for rankings")

    def extent(self, n_documents: Array, n_relevant: Array) -> tuple[Array, Array]:
        """The largest loss and the largest sum_i |c_i| of an output, for queries of such sizes.

        Certificates take them for granted; larger numbers will do. 1 and 4 unless overridden.
        """
        return np.ones(len(n_documents)), np.full(len(n_documents), 4.0)

    @property
    def cutoff(self) -> int:
        """The k of losses of the first k documents."""
        return 1

    def relevance(self, grades: ArrayLike, threshold: float) -> Array:
        """The grades as this loss sees them."""
        grades = np.asarray(grades, np.float64)
        return grades if self.graded else (grades > threshold).astype(np.float64)

    def oracle(self, offsets: Offsets, grades: Array) -> Any:
        """Answers for the queries that begin at the offsets: compiled, or one by one."""
        oracle: Any
        if self.compiled is None:
            oracle = QueryByQuery(self, offsets, grades)
        else:
            oracle = _core.structured.ranking_oracle(offsets, grades, self.compiled, self.cutoff)
        return oracle if self.normalise else Undivided(oracle, offsets, grades)

    def times(self, n_documents: Array, n_relevant: Array) -> Array:
        """How many times as long as the oracle's a psi is, for queries of such sizes."""
        if self.normalise:
            return np.ones(len(n_documents))
        return n_relevant * (n_documents - n_relevant)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Cutoff(RankingLoss):
    """A loss of the first k documents, whose name ends in @k; its features are those of pairs."""

    k: int

    over_pairs: ClassVar[bool] = True

    @property
    def cutoff(self) -> int:  # noqa: D102
        return self.k

    def __str__(self) -> str:
        return self.name.replace("@k", f"@{self.k}")


def ranking_loss_from(loss: str | RankingLoss) -> RankingLoss:
    """A loss by its name, or the loss itself."""
    if isinstance(loss, RankingLoss):
        return loss
    if not isinstance(loss, str):
        raise TypeError(f"loss must be a name or a RankingLoss, got {type(loss).__name__}")
    known = Registry("ranking loss", {**RANKING_LOSSES, **LABELLING_LOSSES})
    name, at, k = loss.partition("@")
    if not at or f"{name}@k" not in known:
        return known.load(loss)()  # type: ignore[no-any-return]
    if not (k.isascii() and k.isdigit() and 0 < int(k) < 2**31):
        raise ValueError(f"{name}@k needs a positive number k, got {loss!r}")
    return known.load(f"{name}@k")(int(k))  # type: ignore[no-any-return]


class QueryByQuery:
    """The compiled oracle's twin for a loss in Python."""

    def __init__(self, loss: RankingLoss, offsets: Offsets, grades: Array) -> None:
        self.loss, self.offsets, self.grades = loss, offsets, grades

    def answers(
        self, scores: Array, coefficients: Array, losses: Array, hinges: Array, n_threads: int
    ) -> None:
        """All queries: coefficients by document, loss and hinge by query."""
        for q in range(len(losses)):
            here = self._documents(q)
            losses[q] = self.answer(q, scores[here], coefficients[here])
            hinges[q] = losses[q] - coefficients[here] @ scores[here]

    def answer(self, q: int, scores: Array, coefficients: Array) -> float:
        """One query: its coefficients are written, its loss returned."""
        grades = self.grades[self._documents(q)]
        coefficients[:] = 0.0
        if (grades == grades[0]).all():  # cannot be ranked wrong
            return 0.0
        try:
            found, loss = self.loss.answer(grades, scores)
            coefficients[:] = found
        except Exception as error:
            raise OracleError(q, f"the loss raised {type(error).__name__}: {error}") from error
        if not (np.isfinite(coefficients).all() and np.isfinite(loss) and loss >= 0):
            raise OracleError(q, f"coefficients must be finite, the loss also >= 0, got {loss}")
        return float(loss)

    def _documents(self, q: int) -> slice:
        return slice(int(self.offsets[q]), int(self.offsets[q + 1]))


class Undivided:
    """An oracle whose psi are P N times those of another: so are the scores that it is asked of."""

    def __init__(self, oracle: Any, offsets: Offsets, grades: Array) -> None:
        relevant = np.add.reduceat((grades > 0).astype(np.float64), offsets[:-1])
        self.oracle, self.sizes = oracle, np.diff(offsets)
        self.pairs = relevant * (self.sizes - relevant)

    def answers(
        self, scores: Array, coefficients: Array, losses: Array, hinges: Array, n_threads: int
    ) -> None:
        """All queries."""
        times = np.repeat(self.pairs, self.sizes)
        self.oracle.answers(times * scores, coefficients, losses, hinges, n_threads)
        coefficients *= times

    def answer(self, q: int, scores: Array, coefficients: Array) -> float:
        """One query."""
        loss = float(self.oracle.answer(q, self.pairs[q] * scores, coefficients))
        coefficients *= self.pairs[q]
        return loss
