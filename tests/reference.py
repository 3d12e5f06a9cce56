"""The objective in plain NumPy, written without a look at the library: what tests compare with."""

from __future__ import annotations

import numpy as np


def dense(X):
    return np.asarray(X.todense() if hasattr(X, "todense") else X, dtype=np.float64)


def _entropy(a, C):
    r = np.clip(a / C, 1e-300, 1.0)
    rest = np.clip(1.0 - a / C, 1e-300, 1.0)
    return -np.sum(a * np.log(r) + (C - a) * np.log(rest))


def _unbounded(C):
    return np.where(C > 0, np.inf, 0.0)


def _huber(p):
    return np.where(np.abs(p) <= 1, 0.5 * p**2, np.abs(p) - 0.5)


# name -> the loss at margins p; the dual value of rows of C > 0, but for 1/2 |w|^2; the largest
# alpha_i. A new loss is one line here, by which it joins the matrix.
LOSSES = {
    "hinge": (lambda p: np.maximum(0.0, 1.0 - p), lambda a, C: a.sum(), lambda C: C),
    "squared_hinge": (
        lambda p: np.maximum(0.0, 1.0 - p) ** 2,
        lambda a, C: a.sum() - np.sum(a**2 / (4 * C)),
        _unbounded,
    ),
    "perceptron": (lambda p: np.maximum(0.0, -p), lambda a, C: 0.0, lambda C: C),
    "logistic": (lambda p: np.log1p(np.exp(-p)), _entropy, lambda C: C),
    "smoothed_hinge": (
        lambda p: np.where(p < 0, 0.5 - p, 0.5 * np.maximum(0, 1 - p) ** 2),
        lambda a, C: a.sum() - np.sum(a**2 / (2 * C)),
        lambda C: C,
    ),
    "epsilon_insensitive": (
        lambda p: np.maximum(0.0, np.abs(p) - 0.1), lambda a, C: -0.1 * np.abs(a).sum(),
        lambda C: C,
    ),
    "squared_epsilon_insensitive": (
        lambda p: np.maximum(0.0, np.abs(p) - 0.1) ** 2,
        lambda a, C: -0.1 * np.abs(a).sum() - np.sum(a**2 / (4 * C)),
        _unbounded,
    ),
    "pinball": (lambda p: 0.5 * np.abs(p), lambda a, C: 0.0, lambda C: 0.5 * C),
    "squared": (lambda p: p**2, lambda a, C: -np.sum(a**2 / (4 * C)), _unbounded),
    "huber": (_huber, lambda a, C: -np.sum(a**2 / (2 * C)), lambda C: C),
    "one_class": (lambda p: np.maximum(0.0, -p), lambda a, C: 0.0, lambda C: C),
}  # fmt: skip

# Those of residuals w.x + b - t: y holds the targets t, and alpha_i may be as low as high.
RESIDUAL = {"epsilon_insensitive", "squared_epsilon_insensitive", "pinball", "squared", "huber"}


# Of rows without labels, where P has this times b sum_i C_i, and sum_i alpha_i is as much.
NU = {"one_class": 0.5}


def primal(X, y, w, b, C, *, loss="hinge", bias="none", bias_scale=1.0):
    """C is a number or one number a row."""
    w = np.asarray(w, dtype=np.float64)
    scores = dense(X) @ w + b
    margins = scores - y if loss in RESIDUAL else y * scores
    value = 0.5 * w @ w + np.sum(C * LOSSES[loss][0](margins))
    if loss in NU:
        value += NU[loss] * b * np.sum(np.broadcast_to(C, len(scores)))
    return value + 0.5 * (b / bias_scale) ** 2 if bias == "regularised" else value


def dual(X, y, alpha, C, *, loss="hinge", bias="none", bias_scale=1.0):
    C = np.broadcast_to(C, alpha.shape)
    signed = alpha if loss in RESIDUAL else alpha * y
    w = dense(X).T @ signed
    used = C > 0
    value = LOSSES[loss][1](alpha[used], C[used]) - 0.5 * w @ w
    if loss in RESIDUAL:
        value += alpha @ y
    if bias == "regularised":
        value -= 0.5 * (bias_scale * signed.sum()) ** 2
    return value


def assert_feasible(y, alpha, C, *, loss="hinge", bias="none"):
    upper = LOSSES[loss][2](C)
    assert np.all(alpha >= (-upper if loss in RESIDUAL else 0))
    assert np.all(alpha <= upper)
    if bias == "free":
        signed = alpha if loss in RESIDUAL else alpha * y
        goal = NU[loss] * np.sum(np.broadcast_to(C, len(alpha))) if loss in NU else 0.0
        assert abs(signed.sum() - goal) <= 1e-9 * np.abs(alpha).sum()


def penalised(**options):
    """scikit-learn's. Before its 1.8 the penalty has a name, too, and only that if it is l1."""
    from sklearn.linear_model import LogisticRegression

    if "l1_ratio" in options and LogisticRegression().penalty == "l2":
        pure = options["l1_ratio"] == 1
        options |= {"penalty": "l1", "l1_ratio": None} if pure else {"penalty": "elasticnet"}
    return LogisticRegression(**options)
