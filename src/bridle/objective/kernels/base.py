"""What a kernel is."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import is_sparse
from bridle.objective.rounding import gamma

# Lengths are taken a little larger, so that what underflow takes is a part 2^-53 of them, too.
FLOOR = 2.0**-1020


@dataclass(frozen=True)
class Accuracy:
    """How large the values of a kernel among some rows are, and how well they are computed.

    |K(a, b)| <= size_a size_b, and the computed value is at most error_a size_b + size_a error_b
    from the exact one: what is needed of a pair are numbers of its two rows.
    """

    size: Array
    error: Array

    @classmethod
    def relative(cls, squares: Array, roundings: float) -> Accuracy:
        """Of values that went through so many roundings of terms of size sqrt(squares)."""
        size = np.sqrt(squares) * (1.0 + 1e-15)
        return cls(size, 0.5 * gamma(roundings + 1) * size)


@dataclass(frozen=True)
class Kernel:
    """A kernel with all its parameters known.

    A subclass is a frozen dataclass with a `name` and `values`; that will do. Without a compiled
    struct the values among the training rows are computed once, and kept as a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> class Mine(bridle.Kernel):
    ...     name, semidefinite = "mine", True
    ...     values = lambda self, A, B: (1.0 + np.asarray(A) @ np.asarray(B).T) ** 2
    >>> X, y = np.array([[-1.0], [0.0], [1.0]]), [1, 0, 1]
    >>> bridle.SVC(kernel=Mine(), C=10.0).fit(X, y).predict(X)
    array([1, 0, 1])
    """

    name: ClassVar[str] = ""
    compiled: ClassVar[str | None] = None  # the core's name of its struct
    given: ClassVar[bool] = False  # the rows of X are its values already: precomputed
    shift_invariant: ClassVar[bool] = False  # K(a + t, b + t) = K(a, b)

    @property
    def semidefinite(self) -> bool:
        """Whether it is positive semi-definite on any rows; if not, those at hand are examined."""
        return False

    @property
    def is_matrix(self) -> bool:
        """Whether its values are kept as a matrix, rather than computed when they are needed."""
        return self.compiled is None

    @property
    def parameters(self) -> dict[str, Any]:
        """Its parameters by their names."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def values(self, A: Any, B: Any) -> Any:
        """K(a, b) for all rows a of A and b of B: the formula."""
        raise NotImplementedError

    def diagonal(self, squared_norms: Array) -> Array:
        """K(x, x) from |x|^2, where there is a formula."""
        raise ValueError(f"the diagonal of the {self.name} kernel is in its matrix")

    def accuracy(self, squared_norms: Array, entries: int) -> Accuracy:
        """Of the compiled values in float64, from |x|^2 of rows of no more than so many entries."""
        raise NotImplementedError(
            f"the {self.name} kernel is compiled, but does not say how accurate its values are"
        )

    def spread(self, diagonal: Array) -> float:
        """An upper bound on the difference of any two values: |K(a, b)| <= max K(x, x)."""
        return 2.0 * float(diagonal.max())


class InnerProductKernel(Kernel):
    """A kernel that is a function of a.b, |a|^2 and |b|^2."""

    def formula(self, product: Any, a: Any, b: Any) -> Any:
        """K(a, b) from a.b, |a|^2 and |b|^2."""
        raise NotImplementedError

    def values(self, A: Any, B: Any) -> Array:  # noqa: D102
        product = A @ B.T
        product = product.toarray() if is_sparse(product) else np.asarray(product)
        return np.asarray(self.formula(product, _squares(A)[:, None], _squares(B)[None]), float)

    def diagonal(self, squared_norms: Array) -> Array:  # noqa: D102
        return np.asarray(self.formula(squared_norms, squared_norms, squared_norms))


def enlarged(squared_norms: Array, entries: int) -> Array:
    """No less than the exact |x|^2, where these are computed ones."""
    return np.asarray(squared_norms * (1.0 + gamma(entries + 4)) + entries * FLOOR)


def _squares(X: Any) -> Array:
    squares = X.multiply(X) if is_sparse(X) else np.square(X)
    return np.asarray(squares.sum(axis=1), np.float64).ravel()
