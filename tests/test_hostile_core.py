"""The compiled core called directly, with sizes and numbers that cannot be.

Every function, and every method of what it makes, is called with each of its arguments replaced by
absurd ones, one at a time: it answers, or it raises an error in words, and never reads where it
should not (`make sanitize` runs this file), asks for the memory of a computing centre, or goes on
for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from bridle import _core
from bridle._core import kernels, matrix, rows, steps, structured, sums, text

N, WIDTH = 12, 4
WORDS = (ValueError, TypeError, IndexError)

WHOLE = [-(2**63), -1, 0, 2**40, 2**62, 2**63 - 1]
REAL = [float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e300, -1e300, 1e-320]


def csr(n: int = N, width: int = WIDTH, bias: float = 0.0) -> Any:
    parts = np.arange(n + 1), np.arange(n, dtype=np.int32) % width, np.linspace(-1, 1, n)
    return matrix.csr_rows(*parts, width, bias, parts)


def dense(n: int = N, width: int = WIDTH) -> Any:
    X = np.linspace(-1, 1, n * width).reshape(n, width)
    return matrix.dense_rows(X, 0.0, X)


def ones(n: int = N) -> Any:
    return np.ones(n)


def signs() -> Any:
    return np.where(np.arange(N) % 2, 1.0, -1.0)


def chain() -> Any:
    return structured.chain(
        csr(), np.array([0, 5, 5, N]), np.arange(N, dtype=np.int32) % 2, np.ones(4) - [1, 0, 0, 1],
        2, True,
    )  # fmt: skip


def rbf() -> Any:
    return kernels.kernel("rbf", 0.5, 0.0, 0, 0.0)


def grammar(**changes: Any) -> Any:
    """S -> A A over two words."""
    ids = lambda *values: np.array(values, np.int32)  # noqa: E731
    places = lambda *values: np.array(values, np.int64)  # noqa: E731
    parts: dict[str, Any] = {
        "n_symbols": 2, "n_terminals": 1, "n_labels": 2, "n_cues": 2, "n_lengths": 3,
        "label": ids(0, 1), "parent": ids(0), "left": ids(1), "right": ids(1),
        "entries_of": places(0, 1), "entry_symbol": ids(1), "roots": ids(0), "size": ones(4),
        "overlaps_of": places(0, 1, 2, 3, 4), "overlap_symbol": ids(0, 1, 0, 1), "overlap": ones(4),
    }  # fmt: skip
    return structured.grammar(**(parts | changes))


SETTINGS: dict[str, Any] = {
    "rate": steps.Rate(1.0, 1.0, 1.0), "steps_before": 0, "batch": 2, "radius": 10.0,
    "bias_rate": 0.1, "sampling": "epochs", "bucket": 2, "keep_random": True,
}  # fmt: skip

# name -> the function, and arguments that are in order.
CALLS: dict[str, tuple[Callable[..., Any], Callable[[], dict[str, Any]]]] = {
    "csr_rows": (matrix.csr_rows, lambda: {
        "offsets": np.arange(4), "columns": np.arange(3, dtype=np.int32), "values": ones(3),
        "n_features": 3, "bias": 1.0, "owner": "me"}),
    "dense_rows": (matrix.dense_rows, lambda: {"values": np.ones((3, 2)), "bias": 1.0,
                                               "owner": "me"}),
    "scan": (matrix.scan, lambda: {"rows": csr(), "squared_norms": ones(), "n_threads": 2}),
    "scores": (rows.scores, lambda: {"rows": csr(), "w": ones(5), "out": ones(), "n_threads": 2}),
    "scores_of_all": (rows.scores_of_all, lambda: {
        "rows": csr(), "weights": np.ones((3, 4)), "constants": ones(3), "out": np.ones((N, 3)),
        "n_threads": 2}),
    "best_of_all": (rows.best_of_all, lambda: {
        "rows": csr(), "weights": np.ones((3, 4)), "constants": ones(3),
        "out": np.zeros(N, np.int64), "n_threads": 2}),
    "combine": (rows.combine, lambda: {
        "rows": csr(), "coefficients": ones(), "out": ones(5), "n_threads": 2}),
    "combine_and_score": (rows.combine_and_score, lambda: {
        "rows": csr(), "coefficients": ones(), "out": ones(5), "w": ones(5), "scores": ones(),
        "n_threads": 2}),
    "combine_and_score_all": (rows.combine_and_score_all, lambda: {
        "rows": csr(), "coefficients": np.ones((2, N)), "out": np.ones((2, 5)),
        "w": np.ones((2, 5)), "scores": np.ones((2, N)), "n_threads": 2}),
    "judge": (rows.judge, lambda: {
        "rows": csr(), "own": ones(), "low": 0.0, "high": ones(), "signs": signs(),
        "scales": (1.0, 0.5, 0.0), "w": ones(5), "alpha": ones(), "combined": ones(5),
        "scores": ones(), "n_threads": 2}),
    "losses": (sums.losses, lambda: {
        "loss": "hinge", "signed_cost": signs(), "scores": ones(), "error": 0.1, "n_threads": 2}),
    "inner": (sums.inner, lambda: {"a": ones(), "b": ones(), "n_threads": 2}),
    "total": (sums.total, lambda: {"a": ones(), "n_threads": 2}),
    "squares_over": (sums.squares_over, lambda: {
        "alpha": ones(), "cost": ones(), "n_threads": 2}),
    "of_dual": (sums.of_dual, lambda: {"alpha": ones(), "signs": signs(), "n_threads": 2}),
    "extremes": (matrix.extremes, lambda: {
        "rows": csr(), "squared_norms": ones(), "n_threads": 2}),
    "two_values": (matrix.two_values, lambda: {"values": signs(), "n_threads": 2}),
    "equal_to": (matrix.equal_to, lambda: {
        "values": signs(), "value": 1.0, "out": np.zeros(N, np.int64), "n_threads": 2}),
    "with_signs": (matrix.with_signs, lambda: {
        "sizes": ones(), "codes": np.arange(N), "positive": 1, "out": ones(), "n_threads": 2}),
    "product": (matrix.product, lambda: {
        "a": ones(), "b": ones(), "out": ones(), "n_threads": 2}),
    "widen": (matrix.widen, lambda: {
        "offsets": np.arange(N, dtype=np.int32), "out": np.zeros(N, np.int64), "n_threads": 2}),
    "first_fall": (matrix.first_fall, lambda: {"offsets": np.arange(N)}),
    "text_of_rows": (matrix.text_of_rows, lambda: {
        "rows": csr(), "chosen": np.array([0, 3]), "labels": [b"1", b"2"]}),
    "weighted_gram": (rows.weighted_gram, lambda: {
        "rows": csr(), "weights": ones(), "out": np.ones((5, 5)), "n_threads": 2}),
    "overlap": (rows.overlap, lambda: {"rows": csr()}),
    "append_rows": (rows.append_rows, lambda: {
        "rows": csr(), "chosen": np.array([0, 3]), "used": 1, "offsets": np.zeros(2, np.int64),
        "columns": np.zeros(9, np.int32), "values": np.zeros(9)}),
    "margin_cut": (steps.margin_cut, lambda: {
        "rows": csr(), "w": ones(5), "signed_cost": signs(), "scores": ones(),
        "active": np.zeros(N, np.uint8), "g": ones(5), "n_threads": 2}),
    "sum_bits": (steps.sum_bits, lambda: {
        "bits": np.ones((2, 2), np.uint8), "weights": ones(2), "out": ones(), "n_threads": 2}),
    "hinge_line_search": (steps.hinge_line_search, lambda: {
        "p": np.linspace(-1, 2, N), "e": np.linspace(1, -1, N), "cost": ones(), "slope": -1.0,
        "curvature": 1.0}),
    "clipped_sum": (steps.clipped_sum, lambda: {
        "p": ones(), "e": ones(), "t": 0.5, "alpha": ones(), "sigma": ones(), "upper": ones(),
        "y": signs(), "n_threads": 2}),
    "clipped_duals": (steps.clipped_duals, lambda: {
        "p": ones(), "alpha": ones(), "sigma": ones(), "upper": ones(), "a": ones(),
        "weights": ones(), "n_threads": 2}),
    "simplex_qp": (steps.simplex_qp, lambda: {
        "gram": np.eye(4), "r": ones(4), "group": np.array([0, 0, 1, 1]), "caps": ones(2),
        "beta": np.zeros(4), "tolerance": 1e-6}),
    "proximal_sigma": (steps.proximal_sigma, lambda: {
        "mean_norm": 1.0, "mean_cost": 1.0, "n_inside": 3}),
    "ProximalBias": (steps.ProximalBias, lambda: {"precision": 1.0, "start": 0.0}),
    "Rate": (steps.Rate, lambda: {"scale": 1.0, "offset": 1.0, "power": 0.5}),
    "dual_coordinate_descent": (steps.dual_coordinate_descent, lambda: {
        "rows": csr(), "loss": "hinge", "signed_cost": signs(), "squared_norms": ones(),
        "alpha": np.zeros(N), "bias": 0.0, "bias_precision": 1.0, "n_blocks": 2, "n_threads": 2}),
    "class_descents": (steps.class_descents, lambda: {
        "rows": csr(), "loss": "hinge", "cost": ones(), "codes": np.arange(N) % 3,
        "squared_norms": ones(), "n_classes": 3, "bias_precision": 1.0, "n_threads": 2}),
    "dcd_part": (steps.dcd_part, lambda: {
        "rows": csr(), "loss": "hinge", "signed_cost": signs(), "squared_norms": ones(),
        "alpha": np.zeros(N)}),
    "streamed_dcd": (steps.streamed_dcd, lambda: {
        "like": csr(), "loss": "hinge", "w": ones(5), "bias": 0.0, "balance": 0.0, "separable": 0.0,
        "mean_squared_norm": 1.0, "mean_cost": 1.0, "n_rows": N, "from_zero": True,
        "bias_precision": 1.0, "n_blocks": 2, "n_threads": 2}),
    "stochastic_gradient": (
        lambda settings=SETTINGS, **rest: steps.stochastic_gradient(
            settings=steps.SgdSettings(**settings), **rest
        ),
        lambda: {
            "rows": csr(), "loss": "squared_hinge", "signed_cost": signs(), "squared_norms": ones(),
            "start_w": ones(5), "start_bias": 0.0, "start_alpha": np.zeros(N)},
    ),
    "SgdSettings": (
        lambda **settings: CALLS["stochastic_gradient"][0](
            settings=settings, **CALLS["stochastic_gradient"][1]()
        ),
        lambda: dict(SETTINGS),
    ),
    "sgd_qn": (steps.sgd_qn, lambda: {
        "rows": csr(), "loss": "hinge", "signed_weight": signs(), "start_w": ones(5), "lam": 0.1,
        "eta0": 0.1, "skip": 3, "sampling": "iid", "bucket": 2}),
    "norma": (steps.norma, lambda: {
        "rows": csr(), "signed_cost": signs(), "squared_norms": ones(), "start_w": ones(5),
        "start_alpha": np.zeros(N), "rho": 0.1, "tau": 5, "sampling": "epochs", "bucket": 2}),
    "margin_perceptron": (steps.margin_perceptron, lambda: {
        "rows": csr(), "signed_weight": signs(), "squared_norms": ones(), "start_a": ones(5),
        "start_counts": np.zeros(N), "offset": 0.0, "slope": 0.1, "presented": 0, "repeat": 3,
        "repeats": "exact", "sampling": "without-replacement", "bucket": 2}),
    "margin_perceptron_unlearning": (steps.margin_perceptron_unlearning, lambda: {
        "rows": csr(), "signed_cost": signs(), "squared_norms": ones(), "start_w": ones(5),
        "start_quanta": np.zeros(N), "quanta": 4.0, "many": True, "bucket": 2}),
    "kernel": (kernels.kernel, lambda: {
        "name": "poly", "gamma": 1.0, "coef0": 1.0, "degree": 2, "constant": 0.0}),
    "expand_kernel": (kernels.expand_kernel, lambda: {
        "kernel": rbf(), "rows": csr(), "squared_norms": ones(), "centres": csr(3),
        "centre_norms": ones(3), "coefficients": ones(3), "out": ones(), "n_threads": 2}),
    "kernel_matrix": (kernels.kernel_matrix, lambda: {
        "kernel": rbf(), "rows": dense(), "squared_norms": ones(), "centres": csr(3),
        "centre_norms": ones(3), "out": np.ones((N, 3)), "n_threads": 2}),
    "smo": (steps.smo, lambda: {
        "kernel": rbf(), "rows": csr(), "squared_norms": ones(), "linear": signs(),
        "lower": -ones(), "upper": ones(), "ridge": ones(), "tube": 0.1, "free_bias": True,
        "coefficients": np.zeros(N), "scores": np.zeros(N), "set_size": 4, "cache_bytes": 10_000,
        "n_threads": 2}),
    "kernel_sgd": (steps.kernel_sgd, lambda: {
        "kernel": rbf(), "rows": csr(), "squared_norms": ones(), "signed_weight": signs(),
        "start": np.zeros(N), "squared_norm": 0.0, "steps_before": 0, "lam": 0.1,
        "rate_scale": 1.0, "rate_offset": 1.0, "rate_power": 0.5, "bias_rate": 0.1, "radius": 10.0,
        "batch": 2, "sampling": "epochs", "window": 3, "n_threads": 2}),
    "chain": (structured.chain, lambda: {
        "rows": csr(), "offsets": np.array([0, 5, 5, N]), "labels": np.zeros(N, np.int32),
        "cost": ones(4), "n_labels": 2, "transitions": True}),
    "chain_frank_wolfe": (structured.chain_frank_wolfe, lambda: {"chain": chain(), "C": ones(3)}),
    "grammar": (grammar, lambda: {
        "n_symbols": 2, "n_terminals": 1, "n_labels": 2, "n_cues": 2, "n_lengths": 3,
        "label": np.zeros(2, np.int32), "left": np.ones(1, np.int32),
        "entries_of": np.array([0, 1]), "size": ones(4),
        "overlaps_of": np.array([0, 1, 2, 3, 4]), "overlap": ones(4)}),
    "label_sets": (structured.label_sets, lambda: {
        "scores": np.ones((N, 3)), "pairs": np.ones((3, 3)), "sets": np.zeros((N, 3), np.uint8),
        "values": ones(), "n_threads": 2}),
    "ranking_oracle": (structured.ranking_oracle, lambda: {
        "offsets": np.array([0, 5, 5, N]), "grades": signs(), "loss": "ndcg", "k": 3}),
    "read_svmlight": (text.read_svmlight, lambda: {
        "text": np.frombuffer(b"\xef\xbb\xbf1 1:2 3:4\n" + b"-1 2:1 # no\n" * 20, np.uint8),
        "name": "it", "single_precision": False, "zero_based": None, "qid": False,
        "n_features": None, "n_threads": 2, "chunk_bytes": 16, "mapped": False}),
    "format_svmlight": (text.format_svmlight, lambda: {
        "indptr": np.arange(4), "indices": np.arange(3, dtype=np.int32), "values": ones(3),
        "labels": ones(3), "qids": None, "zero_based": False, "first_row": 0, "end_row": 3}),
    "Rng.below": (_core.Rng(0).below, lambda: {"n": 5}),
    "Rng": (_core.Rng, lambda: {"seed": 5}),
}  # fmt: skip

# What is made -> its methods, and arguments that are in order.
METHODS: dict[str, dict[str, Callable[[], dict[str, Any]]]] = {
    "DualCoordinateDescent": {
        "visit": lambda: {"rng": _core.Rng(0), "bucket": 2, "share": 0.5},
        "sample": lambda: {"rng": _core.Rng(0), "n": 5},
        "sample_resting": lambda: {"rng": _core.Rng(0), "n": 5},
        "alpha": lambda: {"out": ones()}, "weights": lambda: {"out": ones(5)}, "unshrink": dict,
    },
    "ClassDescents": {
        "visit": lambda: {"rng": _core.Rng(0), "bucket": 2, "share": 0.5},
        "sample": lambda: {"rng": _core.Rng(0), "n": 5}, "report": lambda: {"k": 1},
        "run": lambda: {"k": 1, "running": False}, "unshrink": lambda: {"k": 1},
        "bias": lambda: {"k": 1}, "alone": lambda: {"k": 1},
        "alpha": lambda: {"k": 1, "out": ones()}, "weights": lambda: {"k": 1, "out": ones(5)},
    },
    "DcdPart": {
        "visit": lambda: {"rng": _core.Rng(0), "bucket": 2, "share": 0.5, "w": ones(5), "bias": 0.0,
                          "response": 0.1, "step": ones(5), "balance": 0.5,
                          "first": (9.0, 2.0, 3.0, 2.0)},
        "set_caution": lambda: {"caution": ones(5)}, "moved": dict, "keep": lambda: {"part": 0.5},
        "alpha": lambda: {"out": ones()},
        "look": lambda: {"rng": _core.Rng(0), "n": 5, "w": ones(5), "bias": 0.0},
        "scores": lambda: {"w": ones(5), "bias": 0.0, "out": ones()},
        "resting": lambda: {"out": np.zeros(N, np.uint8)},
        "set_alpha": lambda: {"rows": np.arange(N), "alpha": 0.5 * ones()},
    },
    "StreamedDcd": {
        "visit": lambda: {"rows": csr(), "signed_cost": signs(), "squared_norms": ones(),
                          "alpha": np.zeros(N), "resting": np.zeros(N, np.uint8),
                          "rng": _core.Rng(0), "bucket": 2},
        "end_epoch": dict, "weights": lambda: {"out": ones(5)},
    },
    "StochasticGradient": {
        "run": lambda: {"n_steps": 30, "rng": _core.Rng(0)},
        "set_rate": lambda: {"rate": steps.Rate(1.0, 1.0, 0.5), "t": 3},
        "output": lambda: {"which": "average", "w": ones(5), "alpha": ones()},
        "restart_average": dict,
    },
    "SgdQn": {"run": lambda: {"n_steps": 30, "rng": _core.Rng(0)},
              "weights": lambda: {"w": ones(5)}, "scales": lambda: {"b": ones(5)}},
    "Norma": {"run": lambda: {"n_steps": 30, "rng": _core.Rng(0)},
              "output": lambda: {"w": ones(5), "alpha": ones()}},
    "MarginPerceptron": {"run": lambda: {"n_visits": 30, "rng": _core.Rng(0)},
                         "set_repeat": lambda: {"repeat": 3},
                         "output": lambda: {"a": ones(5), "counts": ones()}},
    "MarginPerceptronUnlearning": {
        "run": lambda: {"n_visits": 30, "rng": _core.Rng(0)}, "halve_quanta": dict,
        "output": lambda: {"w": ones(5), "alpha": ones()},
    },
    "Smo": {"run": lambda: {"n_sets": 5}, "coefficients": lambda: {"": ones()}, "unshrink": dict,
            "refresh": lambda: {"": np.zeros(N)}},
    "KernelSgd": {"run": lambda: {"n_steps": 30, "rng": _core.Rng(0)},
                  "coefficients": lambda: {"": ones()}},
    "Chain": {
        "argmax": lambda: {"w": ones(12), "augmented": True, "paths": np.zeros(N, np.int32),
                           "values": ones(3), "truths": ones(3), "n_threads": 2},
        "differences": lambda: {"paths": np.zeros(N, np.int32), "coefficients": ones(3),
                                "out": ones(12)},
        "answer": lambda: {"i": 0, "w": ones(12)},
        "difference": lambda: {"i": 0, "path": np.zeros(5, np.int32)},
        "losses": lambda: {"paths": np.zeros(N, np.int32), "out": ones(3)},
    },
    "ChainFrankWolfe": {
        "average": lambda: {"out": ones(12)},  # before the first visit
        "visit": lambda: {"order": np.array([0, 2, 1]), "further_steps": 3}, "gaps": dict,
        "weights": lambda: {"out": ones(12)}, "marginals": dict,
    },
    "Grammar": {
        "parse": lambda: {
            "offsets": np.array([0, 2]), "terminals": np.zeros(2, np.int32),
            "cues": np.ones((2, 2), np.int32), "w": ones(33), "truths": None,
            "nodes": np.zeros((3, 3), np.int32), "values": ones(1), "n_threads": 2},
    },
    "RankingOracle": {
        "answers": lambda: {"scores": signs(), "coefficients": ones(), "losses": ones(3),
                            "hinges": ones(3), "n_threads": 2},
        "answer": lambda: {"query": 0, "scores": ones(5), "coefficients": ones(5)},
    },
    "ProximalBias": {"start": lambda: {"sigma": 1.0}, "recentre": lambda: {"sigma": 1.0},
                     "add": lambda: {"balance": 1.0}},
    "Rate": {"at": lambda: {"t": 3}},
}  # fmt: skip


def absurd(name: str, value: Any) -> Iterator[Any]:
    """Values of the kind of this one that cannot be, or hardly."""
    if isinstance(value, np.ndarray):
        yield value[:0]
        yield value[:-1]
        yield np.concatenate([value, value[-1:]])
        yield value[::-1]
        yield value[None]
        extremes: Any = REAL
        if value.dtype.kind in "iu":
            extremes = [np.iinfo(value.dtype).min, np.iinfo(value.dtype).max]
        for extreme in extremes:
            for filled in (np.full_like(value, extreme), value.copy()):
                filled.reshape(-1)[-1:] = extreme
                yield filled
    elif isinstance(value, bool | str):
        yield from (None, "", "x")
    elif name == "n_threads":
        yield from (-(2**31), 0, 2**31 - 1, 2**31)
    elif isinstance(value, int) or value is None:
        yield from WHOLE
    elif isinstance(value, float):
        yield from REAL
    elif isinstance(value, matrix.Rows):
        yield from (csr(0), csr(N - 1), csr(N + 1), csr(N, WIDTH + 1), dense(), beyond())


def beyond() -> Any:
    """Rows with columns out of bounds: a view is not a check."""
    parts = np.arange(N + 1), np.full(N, 10**9, np.int32), np.ones(N)
    return matrix.csr_rows(*parts, WIDTH, 0.0, parts)


def call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """The answer, or None if there is an error in words."""
    try:
        with np.errstate(all="ignore"):
            positional = [arguments.pop("")] if "" in arguments else []
            return function(*positional, **arguments)
    except WORDS:
        return None


def use(made: Any) -> None:
    """Every method once, in order."""
    for method, arguments in METHODS.get(type(made).__name__, {}).items():
        call(getattr(made, method), arguments())


@pytest.mark.parametrize("name", CALLS)
def test_a_function_with_absurd_arguments(name: str) -> None:
    function, arguments = CALLS[name]
    use(function(**arguments()))
    for argument, value in arguments().items():
        for other in absurd(argument, value):
            use(call(function, arguments() | {argument: other}))


def makers() -> dict[str, str]:
    """What is made -> the function that makes it."""
    made = {}
    for name, (function, arguments) in CALLS.items():
        made.setdefault(type(function(**arguments())).__name__, name)
    return {kind: name for kind, name in made.items() if kind in METHODS}


@pytest.mark.parametrize("kind", METHODS)
def test_a_method_with_absurd_arguments(kind: str) -> None:
    function, prepared = CALLS[makers()[kind]]
    for method, arguments in METHODS[kind].items():
        assert method in dir(function(**prepared()))
        for argument, value in arguments().items():
            for other in absurd(argument, value):
                made = function(**prepared())
                call(getattr(made, method), arguments() | {argument: other})
                use(made)


def test_features_that_hold_themselves() -> None:
    nested: dict[str, Any] = {}
    nested["a"] = nested
    with pytest.raises(TypeError, match="nested too deeply"):
        text.intern_features([[nested]], {}, True)
    with pytest.raises(TypeError, match="a column that is not one"):
        text.intern_features([[["a"]]], {"a": "x"}, True)


@pytest.mark.parametrize(("function", "changes", "message"), [
    ("csr_rows", {"n_features": 2**40}, "more than this machine can hold"),
    ("csr_rows", {"n_features": -1}, "must not be negative"),
    ("chain", {"n_labels": 2**32}, "n_labels must be in 1..2147483647"),
    ("grammar", {"n_cues": 2**31 - 1, "n_labels": 2**31 - 1}, "more than this machine can hold"),
    ("sgd_qn", {"rows": csr(0), "signed_weight": np.ones(0)}, "no rows"),
    ("norma", {"tau": 2**50}, "more than this machine can hold"),
    ("smo", {"rows": csr(0), **dict.fromkeys(
        ("squared_norms", "linear", "lower", "upper", "ridge", "coefficients", "scores"),
        np.ones(0))}, "no rows"),
    ("smo", {"lower": np.full(N, 2.0)}, "lower bound above the upper"),
    ("scores", {"rows": beyond()}, "column index 1000000000, outside 0..3"),
    ("label_sets", {"scores": np.full((N, 3), np.nan)}, "contain NaN"),
    ("Rng.below", {"n": 0}, "at least 1"),
])  # fmt: skip
def test_the_message_says_what(function: str, changes: dict[str, Any], message: str) -> None:
    made, arguments = CALLS[function]
    with pytest.raises(ValueError, match=message):
        made(**(arguments() | changes))
