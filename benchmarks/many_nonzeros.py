"""More than 2^31 non-zeros, once for real: write, open, train for an epoch, certify.

    python -m benchmarks.many_nonzeros FOLDER [--nonzeros 2200000000] [--memory 2G]

Needs 8 bytes of disk for a non-zero; the file is removed at the end. All batches have the same rows
with labels of their own, so that what one epoch must give is known: the primal and the dual value
of the certificate are recomputed from one batch.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
from bridle import Epochs, StreamedProblem, solve
from bridle.data import make_corpus, open_arrow
from bridle.data.arrow_writing import RowWriter
from bridle.files.atomic import replacing
from bridle.rows.disk.memory import parse_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nonzeros", type=int, default=2_200_000_000)
    parser.add_argument("--memory", default="2G")
    options = parser.parse_args()
    path = options.folder / "many.arrow"
    X, y = make_corpus(20_000, seed=1)
    copies = math.ceil(options.nonzeros / X.nnz)
    clock = time.perf_counter()
    try:
        with replacing(path) as file:
            writer = RowWriter(file, dtype=X.dtype)
            for _ in range(copies):
                writer.write(X.indptr, X.indices, X.data, y)
            writer.finish(X.shape[1], False)
        print(f"written in {time.perf_counter() - clock:.0f} s")
        rows = open_arrow(path)
        print(rows)
        assert rows.nnz == copies * X.nnz >= options.nonzeros
        last = rows.row(rows.n_rows - 1)
        assert np.array_equal(last[0], X[-1].indices)
        assert last[2] == y[-1]
        clock = time.perf_counter()
        problem = StreamedProblem(rows, 1e-3, memory=parse_size(options.memory))
        solution = solve(problem, "dcd", stop=Epochs(1))
        print(
            f"an epoch and a certificate in {time.perf_counter() - clock:.0f} s: {solution}"[:300]
        )
        margins = y * (X.astype(float) @ solution.w)
        losses = copies * np.maximum(0.0, 1 - margins).sum()
        primal = 0.5 * solution.w @ solution.w + 1e-3 * losses
        alpha = solution.alpha.reshape(copies, len(y)).sum(axis=0)
        w = X.astype(float).T @ (alpha * y)
        dual = alpha.sum() - 0.5 * w @ w
        assert abs(primal - solution.certificate.primal) <= 1e-8 * primal
        assert abs(dual - solution.certificate.dual) <= 1e-8 * abs(dual)
        print(f"confirmed: {solution.certificate}")
    finally:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
