"""Certificates of kernel machines against a judge that rounds nothing: fractions, and 80 digits."""

import re
from decimal import Decimal, localcontext
from fractions import Fraction

import bridle
import numpy as np
import pytest
from bridle.objective.kernels.linear import Linear
from bridle.objective.kernels.poly import Poly
from bridle.objective.kernels.rbf import Rbf
from bridle.objective.kernels.sigmoid import Sigmoid
from bridle.objective.point import Iterate
from bridle.problems.kernel import Expansion, IndefiniteKernelError, KernelIterate
from bridle.rows.gram import kernel_matrix
from scipy import sparse

DIGITS = 80


def exact(x):
    """A fraction, or a number with 80 digits, as the latter."""
    return x if isinstance(x, Decimal) else Decimal(x.numerator) / Decimal(x.denominator)


def exact_kernel(kernel, A, B):
    """K(a, b) of the stored numbers."""
    A, B = ([[Fraction(float(v)) for v in row] for row in M] for M in (A, B))
    return [[exact_value(kernel, a, b) for b in B] for a in A]


def exact_value(kernel, a, b):
    inner = sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))
    if isinstance(kernel, Linear):
        return inner
    gamma = Fraction(kernel.gamma)
    if isinstance(kernel, Rbf):
        squared = sum(((x - y) ** 2 for x, y in zip(a, b, strict=True)), Fraction(0))
        return exact(-gamma * squared).exp()
    base = gamma * inner + Fraction(kernel.coef0)
    if isinstance(kernel, Poly):
        return base**kernel.degree
    if abs(base) > 200:  # to all digits
        return Fraction(1 if base > 0 else -1)
    twice = exact(2 * base).exp()
    return (twice - 1) / (twice + 1)


class Judge:
    """P and D of a problem, from what it was made of."""

    def __init__(self, problem, rows):
        self.problem, self.rows = problem, np.asarray(rows)
        self.y = [Fraction(float(v)) for v in problem.y]
        self.cost = [Fraction(problem.C) * Fraction(float(c)) for c in problem.sample_weight]

    def inner(self, c, centres, d, others):
        """sum_ij c_i d_j K(centre_i, other_j), and the sums over i for each j."""
        if self.problem.kernel.given:
            K = [[Fraction(float(v)) for v in row] for row in self.rows]
        else:
            K = exact_kernel(self.problem.kernel, centres, others)
        sums = []
        for j in range(len(others)):
            terms = (exact(ci) * exact(K[i][j]) for i, ci in enumerate(c) if ci != 0)
            sums.append(sum(terms, Decimal(0)))
        return sum((exact(dj) * s for dj, s in zip(d, sums, strict=True)), Decimal(0)), sums

    def primal(self, w, b):
        c = [Fraction(float(v)) for v in w.coefficients]
        centres = self.rows if w.centres is None else np.asarray(w.centres)
        square, scores = self.inner(c, centres, c, centres)
        if w.centres is not None:
            scores = self.inner(c, centres, [Fraction(0)] * len(self.rows), self.rows)[1]
        b = exact(Fraction(float(b)))
        if self.problem.bias == "regularised":
            square += (b / exact(Fraction(self.problem.bias_scale))) ** 2
        value = square / 2
        for y, cost, s in zip(self.y, self.cost, scores, strict=True):
            value += exact(cost) * max(Decimal(0), 1 - exact(y) * (s + b))
        return value

    def dual(self, alpha):
        """Free bias: of the point that is balanced exactly."""
        alpha = [Fraction(float(a)) for a in alpha]
        assert all(0 <= a <= cost for a, cost in zip(alpha, self.cost, strict=True))
        c = [a * y for a, y in zip(alpha, self.y, strict=True)]
        if self.problem.bias == "free":
            up, down = sum(v for v in c if v > 0), -sum(v for v in c if v < 0)
            c = [v * (min(up, down) / (up if v > 0 else down)) if v else v for v in c]
        square = self.inner(c, self.rows, c, self.rows)[0]
        if self.problem.bias == "regularised":
            square += exact((Fraction(self.problem.bias_scale) * sum(c)) ** 2)
        return exact(sum(map(abs, c), Fraction(0))) - square / 2


def check(problem, rows, found):
    """The claims are bounds; returns the gap that is true."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = DIGITS, -(10**15), 10**15
        judge = Judge(problem, rows)
        primal, dual = judge.primal(found.w, found.b), judge.dual(found.alpha)
        claimed = found.certificate if hasattr(found, "certificate") else found
        rounding = Decimal(10) ** -60 * (abs(primal) + abs(dual))
        for high in (claimed.primal, problem.primal(found.w, found.b)):
            assert high == np.inf or Decimal(high) >= primal - rounding, (high, primal)
        for low in (claimed.dual, problem.dual(found.alpha)):
            assert low == -np.inf or Decimal(low) <= dual + rounding, (low, dual)
        return float((primal - dual) / primal) if primal > 0 else 0.0


def draw(seed, *, scale=1.0, offset=0.0, rows=14, columns=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=rows) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X * scale + offset, y, rng


KERNELS = [
    {"kernel": "rbf"},
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 3, "coef0": 1.0},
    {"kernel": "poly", "degree": 2},
    {"kernel": "sigmoid", "gamma": 0.1},
]
SOLVERS = ["smo", "pegasos", "sgd", "norma", "budgeted-pegasos"]


@pytest.mark.parametrize("seed", range(60))
def test_no_certificate_claims_more_than_is_true(seed):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.choice([0, 0, 1, -1, 7, -7, 20, -20])
    X, y, _ = draw(seed, scale=scale, offset=scale * rng.choice([0, 0, 0, 1e3, 1e7, -1e12]))
    X = X.astype(rng.choice([np.float64, np.float32]))
    options = dict(KERNELS[seed % len(KERNELS)])
    bias = str(rng.choice(["none", "regularised", "free"]))
    solver = str(rng.choice(SOLVERS[1:])) if rng.random() < 0.5 else "smo"
    if solver == "budgeted-pegasos" and bias == "regularised":
        bias = "none"
    if solver == "budgeted-pegasos" and options["kernel"] != "rbf":
        solver = "pegasos"
    weights = 10.0 ** rng.uniform(-7, 7, len(y)) if rng.random() < 0.5 else None
    stored = sparse.csr_matrix(X) if rng.random() < 0.3 else X
    problem = bridle.KernelProblem(
        stored, y, 10.0 ** rng.uniform(-8, 8), bias=bias, sample_weight=weights,
        bias_scale=float(rng.choice([1.0, 0.3])), n_threads=1, **options,
    )  # fmt: skip
    found = bridle.solve(problem, solver, stop=bridle.Gap(1e-12) | bridle.Epochs(20), seed=seed)
    check(problem, X, found)


@pytest.mark.parametrize("kernel", [Linear(), Rbf(0.7), Poly(0.5, 3, 1.0), Sigmoid(0.1, 0.2)])
@pytest.mark.parametrize("scale", [1e-160, 1e-20, 1.0, 1e3, 1e40])
def test_every_value_is_as_accurate_as_the_kernel_says(kernel, scale):
    X, _, _ = draw(3, scale=scale, rows=24, columns=7)
    accuracy = kernel.accuracy(np.einsum("ij,ij->i", X, X), 7)
    found = kernel_matrix(kernel, X, X)
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = DIGITS, -(10**15), 10**15
        for i, row in enumerate(exact_kernel(kernel, X, X)):
            for j, value in enumerate(row):
                size, error = accuracy.size, accuracy.error
                assert abs(exact(value)) <= Decimal(size[i] * size[j] * (1 + 1e-12))
                off = abs(exact(value) - Decimal(found[i, j]))
                assert off <= Decimal((error[i] * size[j] + size[i] * error[j]) * (1 + 1e-12))


def test_the_exponential_is_as_accurate_as_it_is_said_to_be():
    x = np.concatenate([np.linspace(0.0, 40.0, 3001), np.geomspace(1e-12, 690.0, 1000)])
    kernel = Rbf(1.0)  # at squared distances x: of rows (x, 0) against (0, 0) with |a|^2 = x
    rows = np.sqrt(x)[:, None]
    found = kernel_matrix(kernel, rows, np.zeros((1, 1)))[:, 0]
    with localcontext() as context:
        context.prec = DIGITS
        for value, t in zip(found, rows[:, 0] * rows[:, 0], strict=True):
            true = (-Decimal(float(t))).exp()
            assert abs(Decimal(float(value)) - true) <= Decimal(3 * 2.0**-53) * true


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e7, -1e10])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_far_from_zero_lose_nothing(offset, dtype):
    X, y, _ = draw(1, offset=offset, rows=40)
    X = X.astype(dtype)
    if dtype is np.float32 and abs(offset) > 1e3:
        X = (X + 10.0 * abs(offset) * 1e-7 * np.arange(40)[:, None]).astype(dtype)
    problem = bridle.KernelProblem(X, y, 10.0, kernel="rbf", bias="free")
    found = bridle.solve(problem, stop=bridle.Gap(1e-9) | bridle.Epochs(1000))
    assert found.converged, found.message
    assert check(problem, X, found) <= 1e-9
    machine = bridle.SVC(C=10.0, tol=1e-9).fit(X, y)
    with localcontext() as context:
        context.prec = DIGITS
        c = [Decimal(float(v)) for v in machine.dual_coef_[0]]
        K = exact_kernel(machine.kernel_, X, machine.support_vectors_)
        true = [float(sum(a * b for a, b in zip(c, row, strict=True))) for row in K]
    assert machine.decision_function(X) - machine.intercept_[0] == pytest.approx(true, abs=1e-10)
    saved = machine.to_model().decision_function(X)
    assert saved - machine.intercept_[0] == pytest.approx(true, abs=1e-10)


def test_sparse_rows_far_from_zero_get_an_honest_bound():
    X, y, _ = draw(1, offset=1e7)
    problem = bridle.KernelProblem(sparse.csr_matrix(X), y, 10.0, kernel="rbf", bias="free")
    found = bridle.solve(problem, stop=bridle.Gap(1e-6) | bridle.Epochs(20))
    assert check(problem, X, found) <= found.certificate.relative_gap


def test_the_rounding_of_costs_is_on_the_safe_side():
    X, y, rng = draw(5, scale=1e-3)
    weights = rng.uniform(0.1, 3.0, len(y))
    problem = bridle.KernelProblem(X, y, 0.1, kernel="rbf", gamma=1.0, sample_weight=weights)
    found = bridle.solve(problem, stop=bridle.Gap(1e-14) | bridle.Epochs(50))
    check(problem, X, found)
    for alpha, weight in zip(problem.upper, weights, strict=True):
        assert Fraction(float(alpha)) <= Fraction(0.1) * Fraction(float(weight))


def test_steps_from_known_sums_carry_the_errors_of_both():
    X, y, rng = draw(2, rows=12)
    problem = bridle.KernelProblem(X, y, 5.0, kernel="rbf", gamma=0.4)
    before = rng.uniform(0, 5.0, 12) * y
    after = before.copy()
    after[3] = 0.1 * y[3]
    known = (before, problem.expanded(Expansion(before)))
    alpha = np.abs(after)
    iterate = KernelIterate(1, 1.0, Expansion(after), 0.0, alpha, problem=problem, known=known)
    check(problem, X, problem.judge(iterate))
    fresh = problem.expanded(Expansion(after))
    apart = np.abs(iterate.sums.values - fresh.values)
    assert (apart <= iterate.sums.error + fresh.error).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_matrix_is_judged_as_it_is_given(dtype):
    X, y, _ = draw(4, rows=20)
    K = kernel_matrix(Rbf(0.3), X, X).astype(dtype)
    problem = bridle.KernelProblem(K, y, 2.0, kernel="precomputed", bias="free")
    found = bridle.solve(problem, stop=bridle.Gap(1e-12) | bridle.Epochs(200))
    assert check(problem, K, found) <= found.certificate.relative_gap
    assert found.certificate.relative_gap <= (1e-11 if dtype is np.float64 else 1e-5)
    assert "more on its diagonal" in problem.assumption


def test_a_matrix_that_is_not_quite_symmetric_stands_for_its_symmetric_part():
    X, y, rng = draw(4, rows=20)
    K = kernel_matrix(Rbf(0.3), X, X) + 0.01 * np.eye(20)
    K += 1e-15 * rng.normal(size=K.shape)
    problem = bridle.KernelProblem(K, y, 2.0, kernel="precomputed", bias="none")
    found = bridle.solve(problem, stop=bridle.Gap(1e-11) | bridle.Epochs(200))
    half = [[(Fraction(a) + Fraction(b)) / 2 for a, b in zip(r, c, strict=True)]
            for r, c in zip(K.tolist(), K.T.tolist(), strict=True)]  # fmt: skip
    with localcontext() as context:
        context.prec = DIGITS
        judge = Judge(problem, K)
        judge.rows = half

        def inner(c, _, d, __):
            sums = [
                sum((ci * half[i][j] for i, ci in enumerate(c)), Fraction(0)) for j in range(20)
            ]
            square = sum((a * b for a, b in zip(d, sums, strict=True)), Fraction(0))
            return exact(square), [exact(s) for s in sums]

        judge.inner = inner
        assert Decimal(found.certificate.primal) >= judge.primal(found.w, found.b)
        assert Decimal(found.certificate.dual) <= judge.dual(found.alpha)


def indefinite_outside(m, where):
    """The unit matrix, but for a negative eigenvalue on some rows."""
    K = np.eye(m)
    K[np.ix_(where, where)] = np.array([[1.0, 3.0], [3.0, 1.0]])
    return K, np.where(np.arange(m) % 2, 1.0, -1.0)


def test_a_matrix_that_is_indefinite_anywhere_is_refused():
    K, y = indefinite_outside(1600, [700, 1500])
    with pytest.raises(IndefiniteKernelError, match=r"eigenvalue -0\.8 or below"):
        bridle.KernelProblem(K, y, kernel="precomputed")
    K[700, 700] = -1.0
    with pytest.raises(IndefiniteKernelError, match=r"K\[700, 700\] is -1"):
        bridle.KernelProblem(K, y, kernel="precomputed")


def test_of_many_rows_the_result_says_what_is_taken_for_granted(monkeypatch):
    monkeypatch.setattr("bridle.problems.kernel.EXAMINED", 100)
    monkeypatch.setattr("bridle.problems.kernel.SAMPLED", 50)
    sampled = np.random.default_rng(0).choice(120, 50, replace=False)
    K, y = indefinite_outside(120, np.setdiff1d(np.arange(120), sampled)[:2])
    problem = bridle.KernelProblem(K, y, 1e-3, kernel="precomputed")
    assert "120 rows is taken to be positive semi-definite; 50 of them" in problem.assumption
    assert bridle.KernelProblem(K[:90, :90], y[:90], 1e-3, kernel=Rbf()).assumption is None


@pytest.mark.parametrize("m", [2, 40, 300])
def test_a_shifted_matrix_is_positive_semidefinite_for_sure(m):
    rng = np.random.default_rng(m)
    X = rng.normal(size=(m, 5))
    K = X @ X.T  # of rank 5: most eigenvalues are 0 but for rounding
    problem = bridle.KernelProblem(K, np.where(np.arange(m) % 2, 1.0, -1.0), kernel="precomputed")
    least = np.linalg.eigvalsh((K + K.T) / 2)[0]
    assert -least <= problem.shift <= 1e-9 * np.trace(K)
    zeros = bridle.KernelProblem(0 * K, problem.y, kernel="precomputed")
    assert zeros.shift < 1e-250


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("C", [1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e140])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_extremes_end_in_an_honest_status_or_an_error_at_the_door(solver, C, scale, kernel):
    X, y, _ = draw(0, scale=scale, rows=10)
    if solver == "budgeted-pegasos" and kernel != "rbf":
        solver = bridle.solvers.budgeted_pegasos.BudgetedPegasos(maintenance="removal")
    try:
        problem = bridle.KernelProblem(X, y, C, kernel=kernel)
        found = bridle.solve(problem, solver, stop=bridle.Gap(1e-3) | bridle.Epochs(3))
    except ValueError as error:
        assert re.search("scale the features|C must lie between", str(error))  # noqa: PT017
        return
    assert not np.isnan([found.certificate.primal, found.certificate.dual]).any()
    if found.converged:
        check(problem, X, found)


@pytest.mark.parametrize("bias", ["none", "free"])
@pytest.mark.parametrize("C", [1e2, 1e6, 1e10])
def test_a_large_cost_does_not_multiply_what_rounding_leaves(C, bias):
    X, y, _ = draw(8, rows=16)
    machine = bridle.SVC(C=C, gamma=0.7, bias=bias).fit(X, y)
    assert machine.certificate_.relative_gap <= 1e-9
    problem = bridle.KernelProblem(X, y, C, kernel="rbf", gamma=0.7, bias=bias)
    found = bridle.solve(problem, stop=bridle.Gap(1e-10) | bridle.Epochs(200))
    assert check(problem, X, found) <= found.certificate.relative_gap


def test_float32_rows_whose_kernel_leaves_float32_are_solved_in_float64():
    X, y, rng = draw(9, scale=1e-20)
    weights = 10.0 ** rng.uniform(-7, 7, len(y))
    problem = bridle.KernelProblem(
        X.astype(np.float32), y, 1e-2, kernel="poly", coef0=1.0, bias="free", sample_weight=weights
    )
    assert problem.dtype == np.float64
    found = bridle.solve(problem, stop=bridle.Gap(1e-6) | bridle.Epochs(100))
    assert check(problem, X.astype(np.float32), found) <= found.certificate.relative_gap < 1.0


def test_costs_and_values_that_overflow_are_refused():
    X, y, _ = draw(0)
    with pytest.raises(ValueError, match="values of the poly kernel overflow"):
        bridle.KernelProblem(1e60 * X, y, kernel="poly", gamma=1.0)
    with pytest.raises(ValueError, match="out of range, since X has the variance"):
        bridle.KernelProblem(1e-160 * X, y, kernel="rbf")
    with pytest.raises(ValueError, match="costs C c_i of the rows overflow"):
        bridle.KernelProblem(X, y, 1e150, sample_weight=np.full(len(y), 1e160))


def test_a_merged_centre_is_judged_as_it_is_returned():
    X, y, _ = draw(6, rows=16)
    problem = bridle.KernelProblem(X.astype(np.float32), y, 3.0, kernel="rbf", gamma=0.5)
    solver = bridle.solvers.budgeted_pegasos.BudgetedPegasos(budget=4, maintenance="merging")
    found = bridle.solve(problem, solver, stop=bridle.Epochs(5))
    assert found.w.centres is not None
    check(problem, X.astype(np.float32), found)


def test_a_point_outside_by_rounding_is_judged_inside():
    X, y, _ = draw(7)
    problem = bridle.KernelProblem(X, y, 1.0, kernel="rbf")
    over = np.full(len(y), np.nextafter(1.0, 2.0))
    assert problem.dual(over) == problem.dual(np.ones(len(y)))
    assert problem.dual(1.1 * over) == -np.inf
    assert problem.judge(Iterate(0, 0.0, Expansion(over * y), 0.0, over)).alpha.max() <= 1.0
