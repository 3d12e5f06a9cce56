"""What rankings are judged by: one value for each query, from scores, for all queries at once.

    from bridle import metrics
    metrics.average_precision(y, scores, qid).mean()

Every function takes relevance grades y, scores, and the query of each row; the rows of a query
stand together, and without qid all rows are one query. It returns an array with one value for each
query, in the order of the rows; `queries(qid)` are the ids. A grade above `threshold` (0) is
relevant.

Conventions, where tools differ:

Ties in the scores keep the order of the rows, as in LETOR's evaluation script. TREC's trec_eval
    orders them by document number instead.
Queries without relevant documents have average precision, NDCG, precision and reciprocal rank 0, in
    the mean as well: so do LETOR's script and trec_eval. ROC is undefined for queries without
    relevant or without other documents, NaN here; `mean` leaves it out.
Precision at k divides by k even where there are fewer documents: as LETOR 4.0's script and
    trec_eval (P_k) do; LETOR 3.0's script has no value there.
NDCG has three definitions: see `ndcg`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector
from bridle.objective.queries import check_grades, query_offsets
from numpy.typing import ArrayLike, NDArray

Indices = NDArray[np.int64]
Convention = Literal["letor", "trec", "burges"]
CONVENTIONS = ("letor", "trec", "burges")


def average_precision(
    y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None, *, threshold: float = 0.0
) -> Array:
    """The mean, over the relevant documents, of the precision at their ranks.

    Relevant at ranks 1, 3 and 5 of five: (1/1 + 2/3 + 3/5) / 3. Its mean over queries is MAP.

    Examples
    --------
    >>> from bridle import metrics
    >>> metrics.average_precision([1, 0, 1], [3.0, 2.0, 1.0]).round(3)  # (1 + 2/3) / 2
    array([0.833])
    """
    ranked = _Ranked.of(y, scores, qid)
    relevant = ranked.grades > threshold
    hits = ranked.running(relevant)
    return _ratio(ranked.sum(relevant * hits / ranked.rank), ranked.sum(relevant))


def ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int | None = None,
    convention: Convention = "burges",
) -> Array:
    """Discounted cumulative gain of the first k documents, divided by the best possible one.

    convention, of the gain of a grade g and the discount at rank r:

    "letor"   2^g - 1; 1 at ranks 1 and 2, then 1 / log2(r): LETOR's evaluation scripts
    "burges"  2^g - 1; 1 / log2(1 + r): Burges et al. 2005, LightGBM, XGBoost
    "trec"    g;       1 / log2(1 + r): trec_eval's ndcg and ndcg_cut_k, Jarvelin & Kekalainen

    Examples
    --------
    >>> from bridle import metrics
    >>> metrics.ndcg([2, 0, 1], [3.0, 2.0, 1.0]).round(3)  # 3 + 1/2 of 3 + 1/log2(3)
    array([0.964])
    """
    if convention not in CONVENTIONS:
        raise ValueError(f"convention must be one of {', '.join(CONVENTIONS)}, got {convention!r}")
    ranked = _Ranked.of(y, scores, qid)
    if (ranked.grades < 0).any():
        raise ValueError("NDCG needs grades that are not negative")
    limit = np.inf if k is None else _check_k(k)
    rank = ranked.rank
    if convention == "letor":
        discount = 1.0 / np.log2(np.maximum(rank, 2.0))
    else:
        discount = 1.0 / np.log2(1.0 + rank)
    discount = np.where(rank <= limit, discount, 0.0)

    def dcg(grades: Array) -> Array:
        gains = grades if convention == "trec" else np.exp2(grades) - 1.0
        return ranked.sum(gains * discount)

    return _ratio(dcg(ranked.grades), dcg(ranked.ideal()))


def precision_at_k(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int,
    threshold: float = 0.0,
) -> Array:
    """How many of the first k documents are relevant, divided by k.

    Examples
    --------
    >>> from bridle import metrics
    >>> metrics.precision_at_k([1, 0, 1, 0], [4.0, 3.0, 2.0, 1.0], qid=[1, 1, 2, 2], k=1)
    array([1., 1.])
    """
    ranked = _Ranked.of(y, scores, qid)
    return ranked.sum((ranked.grades > threshold) & (ranked.rank <= _check_k(k))) / k


def reciprocal_rank(
    y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None, *, threshold: float = 0.0
) -> Array:
    """1 / the rank of the first relevant document. Its mean over queries is MRR.

    Examples
    --------
    >>> from bridle import metrics
    >>> metrics.reciprocal_rank([0, 1, 1], [3.0, 2.0, 1.0])
    array([0.5])
    """
    ranked = _Ranked.of(y, scores, qid)
    relevant = ranked.grades > threshold
    first = relevant & (ranked.running(relevant) == 1)
    return ranked.sum(first / ranked.rank)


def roc_area(
    y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None, *, threshold: float = 0.0
) -> Array:
    """The fraction of (relevant, other) pairs in the right order; a tie counts one half.

    Examples
    --------
    >>> from bridle import metrics
    >>> metrics.roc_area([1, 0, 1], [3.0, 2.0, 1.0])  # one of two pairs
    array([0.5])
    """
    ranked = _Ranked.of(y, scores, qid)
    relevant = ranked.grades > threshold
    return _pair_fraction(ranked, relevant.astype(np.float64))


def pair_accuracy(y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None) -> Array:
    """The fraction of pairs of different grades in the right order; a tie counts one half.

    NaN for queries of one grade only. With two grades it is `roc_area`.

    Examples
    --------
    >>> from bridle import metrics
    >>> metrics.pair_accuracy([2, 0, 1], [3.0, 2.0, 1.0]).round(3)  # two of three pairs
    array([0.667])
    """
    ranked = _Ranked.of(y, scores, qid)
    return _pair_fraction(ranked, ranked.grades)


def mean(values: ArrayLike) -> float:
    """The mean of what is defined (not NaN).

    Examples
    --------
    >>> from bridle import metrics
    >>> metrics.mean([1.0, 0.0, float("nan")])
    0.5
    """
    values = np.asarray(values, np.float64)
    defined = ~np.isnan(values)
    return float(values[defined].mean()) if defined.any() else float("nan")


def queries(qid: ArrayLike) -> NDArray[Any]:
    """The ids of the queries, in the order of the values that the metrics return.

    Examples
    --------
    >>> from bridle import metrics
    >>> metrics.queries([7, 7, 3])
    array([7, 3])
    """
    ids = np.asarray(qid)
    firsts: NDArray[Any] = ids[query_offsets(ids, len(ids))[:-1]]
    return firsts if firsts.dtype.kind in "OUS" else firsts.astype(np.int64)


@dataclass(frozen=True)
class _Ranked:
    """The documents of every query in the order of their ranks, query after query."""

    grades: Array
    scores: Array
    rank: Array  # 1.. within the query
    query: Indices  # of each document, 0..
    offsets: Indices

    @classmethod
    def of(cls, y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None) -> _Ranked:
        n = len(np.asarray(y))
        if n == 0:
            raise ValueError("there are no documents")
        grades, values = check_grades(y, n), check_vector(scores, n, "scores")
        offsets = np.array([0, n]) if qid is None else query_offsets(qid, n)
        sizes = np.diff(offsets)
        query = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((-values, query))  # stable: ties keep the order of the rows
        rank = np.arange(n) - offsets[query] + 1.0
        return cls(grades[order], values[order], rank, query, offsets)

    def sum(self, values: NDArray[np.generic]) -> Array:
        """Over the documents of each query."""
        return np.add.reduceat(values.astype(np.float64), self.offsets[:-1])

    def running(self, flags: NDArray[np.bool_]) -> Array:
        """How many are set up to here, within the query."""
        counts = np.cumsum(flags)
        before: NDArray[np.int64] = counts[self.offsets[:-1]] - flags[self.offsets[:-1]]
        return (counts - before[self.query]).astype(np.float64)

    def ideal(self) -> Array:
        """The grades of each query from the best to the worst."""
        return self.grades[np.lexsort((-self.grades, self.query))]


def _pair_fraction(ranked: _Ranked, grades: Array) -> Array:
    """Right pairs by the levels of the grades: for each, documents above it against those of it."""
    right, pairs = np.zeros(len(ranked.offsets) - 1), np.zeros(len(ranked.offsets) - 1)
    # Where a run of equal scores within a query begins and ends.
    starts = np.ones(len(grades), np.bool_)
    starts[1:] = (np.diff(ranked.scores) != 0) | (np.diff(ranked.query) != 0)
    run = np.cumsum(starts) - 1
    for level in np.unique(grades)[:-1]:
        higher, same = grades > level, grades == level
        in_run = np.bincount(run, higher)[run]
        up_to_run = np.cumsum(np.bincount(run, higher))[run]
        before_query = (np.cumsum(higher) - higher)[ranked.offsets[:-1]][ranked.query]
        above = up_to_run - in_run - before_query + 0.5 * in_run
        right += ranked.sum(same * above)
        pairs += ranked.sum(same) * ranked.sum(higher)
    return np.divide(right, pairs, out=np.full_like(right, np.nan), where=pairs > 0)


def _ratio(part: Array, whole: Array) -> Array:
    """part / whole, 0 where there is nothing to be found."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)


def _check_k(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k must be a positive integer, got {k!r}")
    return int(k)
