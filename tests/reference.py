"""The objective in plain NumPy, written without a look at the library: what tests compare with."""

from __future__ import annotations

import numpy as np


def dense(X):
    return np.asarray(X.todense() if hasattr(X, "todense") else X, dtype=np.float64)


# name -> the loss at margins p; the dual value of rows of C > 0, but for 1/2 |w|^2; the largest
# alpha_i. A new loss is one line here, by which it joins the matrix.
LOSSES = {
    "hinge": (lambda p: np.maximum(0.0, 1.0 - p), lambda a, C: a.sum(), lambda C: C),
    "squared_hinge": (
        lambda p: np.maximum(0.0, 1.0 - p) ** 2,
        lambda a, C: a.sum() - np.sum(a**2 / (4 * C)),
        lambda C: np.where(C > 0, np.inf, 0.0),
    ),
    "perceptron": (lambda p: np.maximum(0.0, -p), lambda a, C: 0.0, lambda C: C),
}


def primal(X, y, w, b, C, *, loss="hinge", bias="none", bias_scale=1.0):
    """C is a number or one number a row."""
    w = np.asarray(w, dtype=np.float64)
    value = 0.5 * w @ w + np.sum(C * LOSSES[loss][0](y * (dense(X) @ w + b)))
    return value + 0.5 * (b / bias_scale) ** 2 if bias == "regularised" else value


def dual(X, y, alpha, C, *, loss="hinge", bias="none", bias_scale=1.0):
    C = np.broadcast_to(C, alpha.shape)
    w = dense(X).T @ (alpha * y)
    used = C > 0
    value = LOSSES[loss][1](alpha[used], C[used]) - 0.5 * w @ w
    if bias == "regularised":
        value -= 0.5 * (bias_scale * (alpha @ y)) ** 2
    return value


def assert_feasible(y, alpha, C, *, loss="hinge", bias="none"):
    assert np.all(alpha >= 0)
    assert np.all(alpha <= LOSSES[loss][2](C))
    if bias == "free":
        assert abs(alpha @ y) <= 1e-9 * alpha.sum()
