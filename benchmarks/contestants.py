"""Who takes part: ours and the peers, each with its data in the form it likes best.

A contestant prepares once, outside the clock, then fits with one of its settings, ordered from
loose to tight. A fit returns the weights, without bias; what they are worth is computed here.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from benchmarks.data import Data

TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)


class Contestant:
    """A way to fit: `settings` are swept, and the fastest that is accurate enough counts."""

    name: ClassVar[str]
    threaded: ClassVar[bool] = False
    settings: ClassVar[Sequence[Any]] = TOLERANCES

    def prepare(self, data: Data) -> Any:
        raise NotImplementedError

    def fit(self, ready: Any, C: float, setting: Any, n_threads: int) -> np.ndarray:
        raise NotImplementedError


def as_float64(data: Data) -> Any:
    """What scikit-learn's C code reads without a conversion."""
    X = data.X.astype(np.float64)
    if sp.issparse(X):
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X


class ScikitLearn(Contestant):
    """LinearSVC: LIBLINEAR's dual coordinate descent inside scikit-learn."""

    name = "sklearn LinearSVC"
    max_iter = 1000

    def prepare(self, data: Data) -> Any:
        return as_float64(data), data.y

    def fit(self, ready: Any, C: float, setting: Any, n_threads: int) -> np.ndarray:
        from sklearn.svm import LinearSVC

        X, y = ready
        model = LinearSVC(
            C=C, loss="hinge", dual=True, fit_intercept=False, tol=setting,
            max_iter=self.max_iter, random_state=0,
        )  # fmt: skip
        return model.fit(X, y).coef_.ravel()


class ScikitLearnSGD(Contestant):
    """SGDClassifier with averaging off: its settings are numbers of epochs."""

    name = "sklearn SGD"
    settings = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)

    def prepare(self, data: Data) -> Any:
        return as_float64(data), data.y

    def fit(self, ready: Any, C: float, setting: Any, n_threads: int) -> np.ndarray:
        from sklearn.linear_model import SGDClassifier

        X, y = ready
        model = SGDClassifier(
            loss="hinge", alpha=1 / (C * len(y)), fit_intercept=False, max_iter=setting,
            tol=None, random_state=0,
        )  # fmt: skip
        return model.fit(X, y).coef_.ravel()


class Liblinear(Contestant):
    """liblinear-official, -s 3: the authors' own Python package."""

    name = "liblinear"

    def prepare(self, data: Data) -> Any:
        from liblinear.liblinearutil import problem

        return problem(data.y, sp.csr_matrix(as_float64(data)), bias=-1), data.X.shape[1]

    def fit(self, ready: Any, C: float, setting: Any, n_threads: int) -> np.ndarray:
        from liblinear.liblinearutil import parameter, train

        prepared, n_features = ready
        model = train(prepared, parameter(f"-s 3 -c {C} -e {setting} -B -1 -q"))
        sign = 1.0 if model.label[0] > 0 else -1.0
        return sign * np.ctypeslib.as_array(model.w, (n_features,)).copy()


class SnapML(Contestant):
    """IBM's Snap ML: float32, threaded dual coordinate descent."""

    name = "snapml"
    threaded = True
    max_iter = 1000

    def prepare(self, data: Data) -> Any:
        return data.X, data.y.astype(np.float32)

    def fit(self, ready: Any, C: float, setting: Any, n_threads: int) -> np.ndarray:
        from snapml import SupportVectorMachine

        X, y = ready
        model = SupportVectorMachine(
            loss="hinge", regularizer=1 / C, fit_intercept=False, tol=setting,
            max_iter=self.max_iter, n_jobs=n_threads, random_state=0,
        )  # fmt: skip
        model.fit(X, y)
        return np.asarray(model.coef_).ravel()


@dataclass
class Bridle(Contestant):
    """Ours, from the arrays to the certificate: checks, solve and proof are all on the clock."""

    solver: str = "auto"
    threaded = True
    settings = (1e-2, 1e-3, 1e-4, 1e-6)

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"bridle {self.solver}"

    def prepare(self, data: Data) -> Any:
        return data.X, data.y

    def fit(self, ready: Any, C: float, setting: Any, n_threads: int) -> np.ndarray:
        from bridle import Epochs, Gap, LinearProblem, Seconds, solve

        X, y = ready
        problem = LinearProblem(X, y, C, n_threads=n_threads)
        return solve(problem, self.solver, stop=Gap(setting) | Epochs(10_000) | Seconds(60)).w


PEERS: tuple[type[Contestant], ...] = (ScikitLearn, ScikitLearnSGD, Liblinear, SnapML)


def available_peers() -> tuple[list[Contestant], dict[str, str]]:
    """The peers that can be imported, and why the others cannot."""
    here: list[Contestant] = []
    absent: dict[str, str] = {}
    modules = {
        "sklearn LinearSVC": "sklearn",
        "sklearn SGD": "sklearn",
        "liblinear": "liblinear.liblinearutil",
        "snapml": "snapml",
    }
    for peer in PEERS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                __import__(modules[peer.name])
            here.append(peer())
        except (ImportError, OSError) as error:
            absent[peer.name] = str(error)
    return here, absent
