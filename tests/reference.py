"""The objective in plain NumPy, written without a look at the library: what tests compare with."""

from __future__ import annotations

import numpy as np


def dense(X):
    return np.asarray(X.todense() if hasattr(X, "todense") else X, dtype=np.float64)


def losses(p, loss):
    if loss == "perceptron":
        return np.maximum(0.0, -p)
    slack = np.maximum(0.0, 1.0 - p)
    return slack if loss == "hinge" else slack**2


def primal(X, y, w, b, C, *, loss="hinge", bias="none", bias_scale=1.0):
    """C is a number or one number a row."""
    w = np.asarray(w, dtype=np.float64)
    value = 0.5 * w @ w + np.sum(C * losses(y * (dense(X) @ w + b), loss))
    return value + 0.5 * (b / bias_scale) ** 2 if bias == "regularised" else value


def dual(X, y, alpha, C, *, loss="hinge", bias="none", bias_scale=1.0):
    C = np.broadcast_to(C, alpha.shape)
    w = dense(X).T @ (alpha * y)
    value = (0.0 if loss == "perceptron" else alpha.sum()) - 0.5 * w @ w
    if bias == "regularised":
        value -= 0.5 * (bias_scale * (alpha @ y)) ** 2
    if loss == "squared_hinge":
        used = alpha > 0
        value -= np.sum(alpha[used] ** 2 / (4 * C[used]))
    return value


def assert_feasible(y, alpha, C, *, loss="hinge", bias="none"):
    assert np.all(alpha >= 0)
    if loss != "squared_hinge":
        assert np.all(alpha <= C)
    if bias == "free":
        assert abs(alpha @ y) <= 1e-9 * alpha.sum()
