"""Parsers from trees."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bridle.data.trees import Tree
from bridle.fitting.task import StructuralTask
from bridle.matrix.threads import check_threads
from bridle.models.tree import TreeModel
from bridle.structured.grammar import Grammar
from bridle.structured.problem import StructuredProblem
from bridle.structured.tree import TreeOracle
from numpy.typing import ArrayLike


def tree_task(
    trees: Sequence[Tree],
    C: float,
    *,
    order: int = 0,
    rare: int = 1,
    frequent: int = 10,
    sample_weight: ArrayLike | None = None,
    n_threads: int | None = None,
) -> StructuralTask[StructuredProblem, TreeModel]:
    """A grammar that is read from trees, and its weights."""
    grammar = Grammar.read(trees, order=order, rare=rare, frequent=frequent)
    threads = check_threads(n_threads)
    oracle = TreeOracle(grammar, n_threads=threads)
    sentences = [tree.words for tree in trees]
    problem = StructuredProblem(oracle, sentences, trees, C, sample_weight=sample_weight)
    return StructuralTask(problem, partial(TreeModel, grammar=grammar, n_rows=len(trees)))
