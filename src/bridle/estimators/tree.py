"""TreeSVM: a parser, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridle.data.trees import Tree
from bridle.estimators.base import interruptible
from bridle.estimators.structural import Structural
from bridle.fitting.tree import tree_task
from bridle.models.tree import TreeModel
from bridle.objective.segments import Score
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback
from bridle.solving.solution import Keep
from bridle.structured.trees import score_trees
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted


class TreeSVM(Structural, BaseEstimator):  # type: ignore[misc]
    """Structural SVM for parsing: a grammar read from trees, its weights learnt, CKY.

    min_w 1/2 |w|^2 + C sum_i max_y [Delta(y_i, y) - w.(Psi(x_i, y_i) - Psi(x_i, y))],

    where Delta counts the labelled constituents that only one of two trees has. Inputs are lists of
    words, outputs are `bridle.structured.Tree`; `read_trees` reads them from brackets.

    order: how many siblings to its left a rule may look at. rare: words seen no more often than
    this in training are treated by what they look like, as unknown words are. frequent: words seen
    at least so often have weights of their own at the edges of spans. tol: the certified relative
    duality gap to reach. max_iter, max_seconds: budgets for passes over the data and for seconds.
    callback: a function of the newest Record; returning True ends the fit, with the best model so
    far and its gap. keep: which weights to return, the "best" or the "final" ones, as in
    `bridle.solve`.

    After fit: model_, grammar_, coef_, certificate_, trace_, status_, message_, n_iter_.

    Examples
    --------
    >>> trees = bridle.read_trees("(S (NP (DT the) (NN cat)) (VP (VBZ runs)))")
    >>> model = bridle.TreeSVM().fit([tree.words for tree in trees], trees)
    >>> print(model.predict([["the", "dog", "runs"]])[0])
    (S (NP (DT the) (NN dog)) (VP (VBZ runs)))
    """

    model_: TreeModel
    _model_kind = "tree"
    _decisive = ()  # the words alone may decide

    def __init__(
        self,
        C: float = 0.1,
        *,
        order: int = 0,
        rare: int = 1,
        frequent: int = 10,
        solver: str | Solver = "bcfw",
        tol: float = 0.05,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        random_state: Any = 0,
        n_threads: int | None = None,
        keep: Keep = "best",
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            C, solver, tol, max_iter, max_seconds, callback, random_state, n_threads, keep,
            interrupt, n_jobs,
        )  # fmt: skip
        self.order = order
        self.rare = rare
        self.frequent = frequent

    @interruptible
    def fit(
        self,
        X: Sequence[Sequence[str]],
        y: Sequence[Tree],
        sample_weight: ArrayLike | None = None,
    ) -> TreeSVM:
        """Learn from sentences and their trees."""
        if len(X) != len(y):
            raise ValueError(f"there are {len(X)} sentences but {len(y)} trees")
        for i, (words, tree) in enumerate(zip(X, y, strict=True)):
            if not isinstance(tree, Tree):
                raise TypeError(
                    f"tree {i} is a {type(tree).__name__}; read_trees makes trees of brackets"
                )
            if list(words) != tree.words:
                raise ValueError(f"tree {i} has other words than its sentence: {tree!s:.80}")
        return self._fit(
            tree_task(
                y, self.C, order=self.order, rare=self.rare, frequent=self.frequent,
                sample_weight=sample_weight, n_threads=self._threads,
            )
        )  # fmt: skip

    def _show(self, model: TreeModel) -> None:
        self.grammar_, self.coef_ = model.grammar, model.w

    def predict(self, X: Sequence[Sequence[str]]) -> list[Tree]:
        """The best tree of every sentence; a flat one where the grammar has none."""
        check_is_fitted(self, "model_")
        return self.model_.predict(X, n_threads=self._threads)

    def scores(self, X: Sequence[Sequence[str]], y: Sequence[Tree]) -> Score:
        """Precision, recall and F1 of labelled brackets, over all sentences."""
        return score_trees(y, self.predict(X))

    def score(self, X: Sequence[Sequence[str]], y: Sequence[Tree]) -> float:
        """The F1 of labelled brackets."""
        return self.scores(X, y).f1


__all__ = ["TreeSVM"]
