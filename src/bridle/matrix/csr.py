"""CSR arrays without SciPy: importing it takes longer than most files take to read.

The command line reads, solves and predicts on the arrays alone. Whatever needs more of a matrix
gets SciPy's, made of the same arrays when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from bridle import _core
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def check_csr(
    offsets: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], n_features: int
) -> None:
    """ValueError if the offsets, columns or values are none that a matrix may have."""
    rows = _core.matrix.csr_rows(offsets, columns, values, n_features, 0.0, offsets)
    _core.matrix.scan(rows, np.empty(len(offsets) - 1), 1)


class CsrArrays:
    """The rows of a csr_matrix in canonical form; read only, as far as this class goes."""

    ndim = 2
    format = "csr"

    def __init__(
        self,
        data: NDArray[Any],
        indices: NDArray[Any],
        indptr: NDArray[Any],
        shape: tuple[int, int],
    ) -> None:
        self.data, self.indices, self.indptr, self.shape = data, indices, indptr, shape
        self._matrix: csr_matrix | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """How many values are stored."""
        return len(self.data)

    def tocsr(self) -> csr_matrix:
        """SciPy's matrix of these arrays, which are not copied."""
        if self._matrix is None:
            from scipy.sparse import csr_matrix

            matrix = csr_matrix(self.shape, dtype=self.dtype)
            # Set, not passed in: the constructor would scan, and for some shapes copy, the indices.
            matrix.data, matrix.indices, matrix.indptr = self.data, self.indices, self.indptr
            matrix.has_canonical_format = True
            self._matrix = matrix
        return self._matrix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copy, pickle and NumPy look for
            raise AttributeError(name)
        return getattr(self.tocsr(), name)

    def __getitem__(self, key: Any) -> Any:
        return self.tocsr()[key]

    def __matmul__(self, other: Any) -> Any:
        return self.tocsr() @ other


def row_slice(X: Any, begin: int, end: int) -> Any:
    """Rows begin to end of a matrix from `as_matrix`, for the core to read in place."""
    if (begin, end) == (0, X.shape[0]):
        return X
    if not hasattr(X, "indptr"):
        return X[begin:end]
    return CsrArrays(X.data, X.indices, X.indptr[begin : end + 1], (end - begin, X.shape[1]))
