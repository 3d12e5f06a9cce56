"""Parsers from trees: fit a tree model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridle import _core
from bridle.data.trees import Tree
from bridle.models.tree import TreeModel
from bridle.solvers import Solver
from bridle.solving.loop import Callback, solve
from bridle.solving.solution import Solution
from bridle.solving.stopping import Stop
from bridle.structured.grammar import Grammar, TreeOracle
from bridle.structured.problem import StructuredProblem
from numpy.typing import ArrayLike


def train_tree(
    trees: Sequence[Tree],
    C: float,
    *,
    solver: str | Solver,
    stop: Stop,
    order: int = 0,
    rare: int = 1,
    frequent: int = 10,
    sample_weight: ArrayLike | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    callbacks: Iterable[Callback] = (),
) -> tuple[TreeModel, Solution]:
    """Read a grammar from trees and fit its weights; the model and how it came about."""
    grammar = Grammar.read(trees, order=order, rare=rare, frequent=frequent)
    threads = _core.hardware_threads() if n_threads is None else n_threads
    oracle = TreeOracle(grammar, n_threads=threads)
    sentences = [tree.words for tree in trees]
    problem = StructuredProblem(oracle, sentences, trees, C, sample_weight=sample_weight)
    solution = solve(problem, solver, stop=stop, seed=seed, callbacks=callbacks)
    model = TreeModel(
        solution.w, grammar, float(C), solution.certificate, len(trees),
        {"solver": solution.solver, "status": solution.status.value, "seed": seed},
    )  # fmt: skip
    return model, solution
