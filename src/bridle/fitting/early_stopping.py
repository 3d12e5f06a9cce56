"""Stopping where the loss on rows held out stops falling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix, is_sparse
from bridle.models.scaling import divided
from bridle.objective.losses import Loss
from bridle.solving.stopping import Stop, ValidationLoss
from numpy.typing import NDArray


@dataclass(frozen=True)
class EarlyStopping:
    """fraction: of each class, held out. patience: epochs to wait for a lower loss."""

    fraction: float = 0.1
    patience: int = 5

    def set_aside(
        self,
        X: Any,
        codes: NDArray[np.intp],
        weights: Array | None,
        costs: Array | None,
        seed: int,
    ) -> tuple[Validation, Array]:
        """Rows to stop by, and the costs of the others: those set aside have none."""
        row = np.ones(len(codes)) if weights is None else weights
        rows = hold_out(np.where(row > 0, codes, -1), self.fraction, seed)
        if not len(rows):
            raise ValueError("early_stopping needs a class of two rows or more")
        rest = np.ones(len(codes)) if costs is None else costs.copy()
        held = rest[rows].copy()
        rest[rows] = 0.0
        return Validation(X[rows], codes[rows], held, self.patience), rest


@dataclass(frozen=True)
class HeldOutRows:
    """Rows of their own to stop by, and their labels."""

    X: Any
    y: NDArray[Any]
    patience: int = 5

    def validation(self, classes: NDArray[Any], width: int, sizes: Array | None) -> Validation:
        """For rows of this width and these classes, divided by the sizes of their features."""
        strange = self.y[~np.isin(self.y, classes)]
        if len(strange):
            raise ValueError(f"held-out rows have the label {strange[0]}, the training rows not")
        X = self._fitted(width, sizes)
        return Validation(X, np.searchsorted(classes, self.y), None, self.patience)

    def targets(self, loss: Loss, width: int, sizes: Array | None) -> ValidationLoss:
        """The same of rows with targets."""
        return ValidationLoss(self._fitted(width, sizes), self.y, loss, patience=self.patience)

    def _fitted(self, width: int, sizes: Array | None) -> Any:
        X = as_matrix(self.X).copy()
        if is_sparse(X):
            X.resize((X.shape[0], width))  # features that no training row has decide nothing
        elif X.shape[1] != width:
            raise ValueError(f"held-out rows have {X.shape[1]} features, the training rows {width}")
        return X if sizes is None else divided(X, sizes)


@dataclass(frozen=True)
class Validation:
    """Rows held out to stop by: see `bridle.solving.stopping.ValidationLoss`."""

    X: Any
    codes: NDArray[np.intp]
    sample_weight: Array | None = None
    patience: int = 5

    def rule(self, positive: int, negative: int | None, loss: Loss) -> Stop | None:
        """Of one class against another or (None) all others; None without rows of either."""
        rows = np.arange(len(self.codes))
        if negative is not None:
            rows = np.flatnonzero((self.codes == positive) | (self.codes == negative))
        if not len(rows):
            return None
        weights = None if self.sample_weight is None else self.sample_weight[rows]
        signs = np.where(self.codes[rows] == positive, 1.0, -1.0)
        X = self.X if negative is None else self.X[rows]
        return ValidationLoss(X, signs, loss, weights, self.patience)


@dataclass(frozen=True)
class JointValidation(ValidationLoss):
    """The loss of all classes on held-out rows; y holds the classes by number."""

    n_classes: int = 0
    problem: Any = None

    @classmethod
    def of(cls, validation: Validation, problem: Any, n_classes: int) -> Self:
        """On these rows, with the costs of the problem."""
        return cls(
            validation.X, validation.codes, sample_weight=validation.sample_weight,
            patience=validation.patience, n_classes=n_classes, problem=problem,
        )  # fmt: skip

    def _check(self) -> None:
        pass  # of labels that are not -1 and +1

    def measure(self, w: Array, b: float) -> dict[str, float]:
        """The mean loss, and the share of rows that another class wins."""
        table, constant = w.reshape(-1, self.n_classes), self.problem.chains.bias
        scores = self.X @ (table[:-1] if constant else table)
        scores = scores + constant * table[-1] if constant else scores
        truth = scores[np.arange(len(self.y)), self.y]
        behind = scores - truth[:, None] + self.problem.chains.cost[self.y]
        return self.means(behind.max(axis=1), scores.argmax(axis=1) != self.y)


@dataclass(frozen=True)
class AsideLoss(ValidationLoss):
    """The loss on the rows of a cluster that its problem does not see."""

    problem: Any = None

    @classmethod
    def of(cls, problem: Any, patience: int) -> Self:
        """Rows and labels are with the workers."""
        return cls(None, np.empty(0), patience=patience, problem=problem)

    def _check(self) -> None:
        pass

    def measure(self, w: Array, b: float) -> dict[str, float]:
        """The mean loss and the error, as the workers find them."""
        loss, error = self.problem.sides.held_loss(w, b)
        return {"validation_loss": loss, "validation_error": error}


def check_fraction(fraction: float) -> None:
    """ValueError unless it is a part of the rows."""
    if not 0 < fraction < 1:
        raise ValueError(f"validation_fraction must be between 0 and 1, got {fraction}")


def hold_out(codes: NDArray[np.intp], fraction: float, seed: int) -> NDArray[np.intp]:
    """Rows to set aside, in order: this part of every class, drawn at random.

    At least one row of each class that has two; rows with a code below zero belong to no class.
    """
    check_fraction(fraction)
    order = np.random.default_rng(seed).permutation(len(codes))
    held = []
    for k in range(int(codes.max()) + 1):
        rows = order[codes[order] == k]
        held.append(rows[: min(len(rows) - 1, max(1, round(fraction * len(rows))))])
    return np.sort(np.concatenate(held))
