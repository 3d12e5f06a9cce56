"""Uses of bridle as type checkers must see them: never run, read by test_types.py.

A line that ends in `# wrong` is an error to mypy and to pyright; no other line is.
"""

from typing import assert_type

import bridle
import numpy as np
from bridle import SVC, Certificate, LinearProblem, LinearSVC, Pegasos, Solution, solve

X, y = np.eye(3), np.array([1, -1, 1])

solution = solve(LinearProblem(X, y, C=2.0), Pegasos(batch=10), stop=bridle.Gap(1e-3))
assert_type(solution, Solution)
assert_type(solution.certificate, Certificate)
assert_type(solution.certificate.relative_gap, float)
solve(1)  # wrong
solve(LinearProblem(X, y), seed="one")  # wrong
Pegasos(btach=10)  # wrong
bridle.Gap("small")  # wrong

model = LinearSVC(C=0.5, loss="squared_hinge", solver="dcd").fit(X, y)
assert_type(model, LinearSVC)
model.save("a.model")
LinearSVC(nonsense=3)  # wrong
LinearSVC(multi_class="one of them")  # wrong
bridle.estimators.LinearSVC(nonsense=3)  # wrong
SVC(kernel=3)  # wrong
SVC(1.0, kernel="rbf", gamma="scale").decision_function(X).mean()
bridle.LinearSVCCV(Cs=[0.1, 1.0]).fit(X, y)
bridle.LogisticRegressionCV(Cs=[0.1, 1.0]).fit(X, y)
bridle.RankSVM().fit(X, y, qid=[1, 1, 2])
bridle.ChainSVM(C="much")  # wrong

assert_type(bridle.lam_to_C(0.1, 10), float)
bridle.metrics.roc_area(y, y)
bridle.data.make_corpus("many")  # wrong
bridle.data.read_svmlight("a.svm", dtype=np.float32)
bridle.plot.plot_trace(solution.trace)
bridle.solvers.REGISTRY.keys()
bridle.structured.check_oracle(3)  # wrong
bridle.nothing_of_that_name()  # wrong
bridle.__version__.split(".")
