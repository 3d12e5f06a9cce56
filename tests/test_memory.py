"""Solving takes a fraction of the memory that the rows take, beside O(rows + features)."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from bridle.data import make_corpus

# In a process of its own, where nothing else has made the peak.
SOLVE = """
import resource, sys
import numpy as np
import scipy.sparse as sp
from bridle import Gap, LinearProblem, solve

def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

folder, C = sys.argv[1], float(sys.argv[2])
small = sp.random(50, 20, 0.5, "csr", np.float32)
solve(LinearProblem(small, np.where(np.arange(50) % 2, 1.0, -1.0)))  # what code takes
names = ("data", "indices", "indptr", "y")
data, indices, indptr, y = (np.load(f"{folder}/{name}.npy") for name in names)
X = sp.csr_matrix((data, indices, indptr), shape=(len(y), int(sys.argv[3])), copy=False)
before = peak()
assert solve(LinearProblem(X, y, C), "dcd", stop=Gap(1e-3)).converged
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_peak_memory_of_a_solve(C, tmp_path):
    X, y = make_corpus(60_000)
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(X, name))
    np.save(tmp_path / "y.npy", y)
    csr = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    command = [sys.executable, "-c", SOLVE, str(tmp_path), str(C), str(X.shape[1])]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) <= 0.25 * csr + 200 * sum(X.shape)
