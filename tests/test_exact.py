"""No certificate is wrong, by a judge that counts in exact rationals: on hard data, and at random.

The judge is in exact.py, the random problems are in exact_draws.py, which draws more by hand.
"""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction

import bridle
import numpy as np
import pytest
from bridle import (
    SVC,
    Certificate,
    Epochs,
    Expansion,
    Gap,
    KernelProblem,
    LinearProblem,
    LinearSVC,
    Status,
    solve,
)
from bridle.problems.kernel import IndefiniteKernelError
from bridle.solvers import solver_class, solver_names
from bridle.structured.chain import ChainProblem

from exact import (
    Kernelled,
    Linear,
    Outputs,
    chain_outputs,
    exponential,
    in_cone,
    is_definite,
    wrong_box,
    wrong_certificate,
    wrong_status,
)
from exact_draws import assumes_definite, report, run_draw

SEED, DRAWS, TESTS = 2024, 500, 50

# Numbers of any size are what is tested: NumPy may say that they overflow.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")


@pytest.mark.parametrize("share", range(TESTS))
def test_no_certificate_of_random_problems_is_wrong(share):
    outcomes = [run_draw(SEED, index, timed=False) for index in range(share, DRAWS, TESTS)]
    assert [report(outcome, SEED) for outcome in outcomes if outcome.wrong] == []


# --- the judge ------------------------------------------------------------------------------------


def kinds(found):
    return {wrong.kind for wrong in found}


def by_hand(**how):
    """Two rows: P(w) = 1/2 w^2 + 2 max(0, 1 - w) + 1/2 max(0, 1 - w/2), least at w = 1."""
    return Linear(np.array([[1.0], [-0.5]]), [1, -1], 0.5, weight=[4.0, 1.0], **how)


def test_the_judge_agrees_with_values_by_hand():
    judge = by_hand()
    assert judge.primal([1.0]) == Fraction(3, 4)
    assert judge.dual([0.75, 0.5]) == Fraction(3, 4)
    assert judge.dual([3.0, 0.5]) == Fraction(50, 81)  # clipped to (2, 0.5), times 40/81
    squared = by_hand(loss="squared_hinge")
    assert squared.primal([0.0]) == Fraction(5, 2)
    assert squared.dual([1.0, 0.0]) == Fraction(2, 5)
    free = by_hand(bias="free")
    assert free.primal([2.0], -0.5) == 2
    assert free.dual([2.0, 0.5]) == Fraction(1) - Fraction(9, 32)
    regularised = by_hand(bias="regularised", bias_scale=0.5)
    assert regularised.primal([1.0], 0.5) == Fraction(3, 2)
    hard = Linear(np.array([[1.0], [-0.5]]), [1, -1], math.inf)
    assert hard.primal([2.0]) == 2
    assert hard.primal([1.0]) == 2  # at the scale that is feasible
    assert hard.primal([-1.0]) == math.inf
    assert hard.dual([0.0, 4.0]) == 2


ABOVE, BELOW = math.nextafter(0.75, 1), math.nextafter(0.75, 0)


@pytest.mark.parametrize(
    ("primal", "dual", "found"),
    [
        (0.75, 0.75, set()),
        (ABOVE, BELOW, set()),
        (1.0, 0.0, set()),
        (math.inf, -math.inf, set()),
        (BELOW, BELOW, {"primal too low"}),
        (1.0, ABOVE, {"dual above the optimum", "dual not proven"}),
        (ABOVE, ABOVE, {"dual above the optimum", "dual not proven"}),
        (0.75, 0.76, {"order"}),
        (math.nan, 0.75, {"not a number"}),
        (0.75, math.nan, {"not a number"}),
    ],
)
def test_the_judge_finds_one_wrong_bit(primal, dual, found):
    certificate = Certificate(primal, dual)
    assert kinds(wrong_certificate(by_hand(), certificate, [1.0], 0.0, [0.75, 0.5])) == found


def test_the_judge_finds_claims_that_are_not_proven():
    judge = by_hand()
    # D of these dual variables is less: what is claimed is below the optimum, and not proven.
    found = wrong_certificate(judge, Certificate(0.75, 0.7), [1.0], 0.0, [0.25, 0.25])
    assert kinds(found) == {"dual not proven", "gap too small"}
    # No dual variables, but somebody else's weights.
    assert wrong_certificate(judge, Certificate(2.5, 1.0), [0.0], 0.0, None) == []
    found = wrong_certificate(judge, Certificate(2.5, 1.0), [0.0], 0.0, None, [([1.0], 0.0)])
    assert kinds(found) == {"dual above the optimum"}
    assert kinds(wrong_certificate(judge, Certificate(1, 0), [math.nan], 0.0, None)) == {
        "not a number"
    }
    assert kinds(wrong_box(judge, [2.1, 0.0])) == {"alpha out of its box"}
    assert wrong_box(judge, [math.nextafter(2, 3), 0.0]) == []
    assert kinds(wrong_status(True, Certificate(1.0, 0.9), 0.01)) == {"status"}


def test_the_judge_separates_exactly():
    rows = np.array([[1e6, 1e-7], [1e6, -1e-7]])
    assert Linear(rows, [1, -1], math.inf).separable()
    assert Linear(rows, [1, -1], math.inf, weight=[1, 0]).separable()
    one = np.array([[1.0], [2.0], [3.0]])
    assert not Linear(one, [1, -1, 1], math.inf, bias="free").separable()
    assert Linear(one, [-1, 1, 1], math.inf, bias="free").separable()
    assert not Linear(one, [-1, 1, 1], math.inf).separable()
    assert Linear(one, [-1, 1, 1], math.inf, bias="regularised").separable()
    third = [[Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)], [Fraction(-1, 3)] * 2]
    assert in_cone(third)
    assert not in_cone(third[:2])


def test_the_judge_knows_kernels():
    assert float(exponential(Fraction(-1))) == math.exp(-1)
    assert exponential(Fraction(0)) == 1
    X, y = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.25]]), [1, -1, 1]
    for bias in ("none", "regularised", "free"):
        linear = Linear(X, y, 0.7, bias=bias, bias_scale=2.0)
        kernel = KernelProblem(X, np.array(y), kernel="linear").kernel
        kernelled = Kernelled(X, y, 0.7, kernel=kernel, bias=bias, bias_scale=2.0)
        c = np.array([0.5, -0.25, 0.125])
        assert linear.primal(c @ X, 0.5) == kernelled.primal(Expansion(c), 0.5)
        assert kernelled.primal(Expansion(c, X), 0.5) == kernelled.primal(Expansion(c), 0.5)
        assert linear.dual(np.abs(c)) == kernelled.dual(np.abs(c))
    assert is_definite([[Fraction(1), Fraction(1)], [Fraction(1), Fraction(1)]])
    assert not is_definite([[Fraction(0), Fraction(1)], [Fraction(1), Fraction(5)]])


def test_the_judge_knows_outputs():
    """One row of three classes, w = 0: every wrong class costs 1; and two rows in a chain."""
    X = np.array([[1.0, -2.0]])
    judge = Outputs(chain_outputs(X, [0, 1], [2], 3, transitions=False), [Fraction(3)])
    assert judge.primal(np.zeros(6)) == 3
    w = np.array([0.0, 0.0, 0.5, 0.0, 0.0, 0.0])  # half a point for the truth
    assert judge.primal(w) == Fraction(1, 8) + Fraction(3, 2)
    chain = Outputs(chain_outputs(X.T, [0, 2], [0, 1], 2), [Fraction(1)])
    assert chain.primal(np.zeros(6)) == 2
    assert chain.primal(np.array([0.0, 0.0, 0.0, 2.0, 0.0, 0.0])) == 2  # the rest costs nothing


# --- certificates that were wrong once ------------------------------------------------------------


def judged(judge, solution, tol):
    certificate = solution.certificate
    found = wrong_certificate(judge, certificate, solution.w, solution.b, solution.alpha)
    return [*map(str, found + wrong_status(solution.converged, certificate, tol))]


def forty_rows():
    """Of three features, and labels that the first one decides."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


def noisy(y):
    return np.where(np.arange(len(y)) % 5 == 0, -y, y)


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(("scale", "low"), [(1.0, 1e-18), (1e-9, 1e-3)])
def test_a_path_from_where_C_times_squared_norms_is_rounding(scale, low, loss, bias):
    X, y = forty_rows()
    X, y = scale * X, noisy(y)
    high = 10.0 if bias == "regularised" else 10.0 / scale**2  # its constant feature is 1
    path = bridle.path(X, y, low, high, gap=1e-3, loss=loss, bias=bias)
    found = []
    for C in np.geomspace(path[0].low, path[-1].high, 19)[1:-1].tolist():
        solution, certificate = path.at(C)
        judge = Linear(X, y, C, loss=loss, bias=bias, longest=None)
        found += wrong_certificate(judge, certificate, solution.w, solution.b, solution.alpha)
    assert [*map(str, found)] == []


@pytest.mark.parametrize("C", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("scale", [1e7, 1e8, 1e9, 1e10])
def test_a_free_bias_of_large_features(scale, C):
    """The last bit of b, as it is stored, times C is more than the whole objective."""
    X, y = forty_rows()
    problem = LinearProblem(scale * X, y, C, bias="free")
    solution = solve(problem, stop=Gap(1e-6) | Epochs(300))
    assert judged(Linear(scale * X, y, C, bias="free"), solution, 1e-6) == []


@dataclass(frozen=True)
class Hard:
    """A small problem on an extreme scale."""

    solver: str
    X: list[list[float]]
    y: list[int]
    C: float
    loss: str
    bias: str
    weight: list[float] | None = None
    dtype: str = "float64"


HARD = [
    Hard("svmperf", [[-4847207211597824.0], [2.6973250176365363e17]], [1, -1],
         14.786484092223679, "hinge", "none", dtype="float32"),
    Hard("interior-point", [[63260332.0, 1.0488401258612612e-08],
                            [-53746852.0, 2.5515133117437472e-08]], [1, -1],
         0.1334913639443717, "hinge", "regularised",
         [0.00018682347201594217, 902.8697178929926], "float32"),
    Hard("newton", [[9.256861408690176e16], [7.256856629713306e16]], [1, -1],
         70334.53559453123, "hinge", "regularised",
         [7.752313408489812e-07, 2.3604223943324634e-06], "float32"),
    Hard("newton", [[-8.631744020648254e19], [-4.621841332767649e18], [2.825901136113294e19]],
         [1, -1, 1], 3.292534197323056, "squared_hinge", "none",
         [46.133257920427596, 0.14415169355476695, 6.941563148805501]),
    Hard("sgd-qn", [[1.187422995132038e19], [-5.645513104156812e18], [-8.078024126729976e17]],
         [1, -1, 1], 4.028022199123134e-06, "squared_hinge", "regularised",
         [3.1566208732529697, 2.1248432955977348e-05, 13.45203227830653]),
    Hard("qp", [[9.256861408690176e16], [7.256856629713306e16]], [1, -1],
         70334.53559453123, "hinge", "none",
         [7.752313408489812e-07, 2.3604223943324634e-06], "float32"),
    Hard("cg", [[-7.894136146152653e17], [-1.582467987108004e17], [-2.8589329546739712e17],
                [-3.567623174356992e17]], [1, -1, 1, -1],
         8.168960639491752e-08, "squared_hinge", "regularised", dtype="float32"),
    Hard("dcd", [[-6307278.014569926], [338664.4847541721], [15839066.141119767]], [1, -1, -1],
         1884.1067338790215, "hinge", "regularised",
         [0.019463832632501614, 10.37329242452229, 0.020510918408366653]),
    Hard("auto", [[-9059374984554.54, 24097152874580.3], [31929122571870.09, -32357597292972.727]],
         [1, -1], 14640500.492480233, "hinge", "none",
         [1.5482854401648547e-05, 8172360.526530065]),
]  # fmt: skip


@pytest.mark.parametrize("hard", HARD, ids=lambda hard: hard.solver)
def test_extreme_scales_and_weights(hard):
    X = np.array(hard.X, hard.dtype)
    problem = LinearProblem(
        X, hard.y, hard.C, loss=hard.loss, bias=hard.bias, sample_weight=hard.weight
    )
    solution = solve(problem, hard.solver, stop=Gap(1e-6) | Epochs(30))
    judge = Linear(X, hard.y, hard.C, loss=hard.loss, bias=hard.bias, weight=hard.weight)
    assert judged(judge, solution, 1e-6) == []


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("offset", [1e5, 1e6, 1e7, 1e8])
def test_gauss_kernel_far_from_the_origin(offset, bias):
    """|x|^2 + |z|^2 - 2 x.z cancels."""
    X, y = forty_rows()
    X, y = X[:15] + offset, noisy(y[:15])
    problem = KernelProblem(X, y, kernel="rbf", gamma=0.5, bias=bias)
    solution = solve(problem, stop=Gap(1e-5) | Epochs(1000))
    judge = Kernelled(X, y, 1.0, kernel=problem.kernel, bias=bias)
    assert judged(judge, solution, 1e-5) == []


@pytest.mark.parametrize("solver", ["auto", "dcd", "newton", "qp"])
def test_rows_that_differ_in_a_small_feature_are_separable(solver):
    X, y = np.array([[1e6, 1e-7], [1e6, -1e-7]]), np.array([1, -1])
    solution = solve(LinearProblem(X, y, math.inf), solver, stop=Gap(1e-3) | Epochs(100))
    assert solution.status is not Status.INFEASIBLE
    assert judged(Linear(X, y, math.inf), solution, 1e-3) == []
    assert LinearSVC(C=math.inf, fit_intercept=False).fit(X, y).proof_ is None


def test_a_matrix_that_is_indefinite_where_nobody_looked():
    """30 (phi_i - phi_j) has a squared length of -16,200 in it: no positive value is a bound."""
    n = 1600
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    looked_at = np.random.default_rng(0).choice(n, 500, replace=False)
    i, j = np.setdiff1d(np.arange(1, n, 2), looked_at)[:2]
    K = np.eye(n)
    K[i, j] = K[j, i] = 10.0
    try:
        solution = solve(KernelProblem(K, y, kernel="precomputed"))
    except IndefiniteKernelError:
        return
    assert assumes_definite(solution) or solution.certificate.dual == -math.inf
    with pytest.raises(IndefiniteKernelError):
        SVC(kernel="precomputed", C=1e3).fit(K[np.ix_([i, j, 0], [i, j, 0])], y[[i, j, 0]])


@dataclass(frozen=True)
class Boastful(bridle.Loss):
    """The hinge, with twice the dual value that it has."""

    name = "boastful"

    def value(self, p):
        return np.maximum(0.0, 1.0 - p)

    def slope(self, p):
        return (p < 1.0).astype(float)

    def upper(self, cost):
        return cost

    def dual_value(self, alpha, cost):
        return 2.0 * float(alpha.sum())


@pytest.mark.parametrize("solver", ["auto", "dcd", "gd"])
def test_a_loss_whose_dual_value_is_too_large_proves_nothing(solver):
    X, y = forty_rows()
    problem = LinearProblem(X, noisy(y), loss=Boastful())
    try:
        solution = solve(problem, solver, stop=Gap(1e-3) | Epochs(100))
    except ValueError as error:
        assert "dual" in str(error)  # noqa: PT017  (either answer is honest)
        return
    assert not solution.converged
    assert not solution.certificate.relative_gap <= 1e-3


def test_the_constant_feature_of_chains_is_not_rounded():
    """Rows of float32 do not make the bias one."""
    X = np.array([[4.3335691e-05], [2.6812268e-05]], np.float32)
    weight, bias, C = [5.73, 4.13], 0.0010571801946817625, 18562982678.76097
    problem = ChainProblem(
        X, [0, 1, 2], [0, 0], 2, C, transitions=False, bias=bias, sample_weight=weight
    )
    solution = solve(problem, "n-slack", stop=Gap(1e-4) | Epochs(40))
    outputs = chain_outputs(X, [0, 1, 2], [0, 0], 2, transitions=False, bias=bias)
    judge = Outputs(outputs, Linear(X, [1, 1], C, weight=weight).cost)
    assert judged(judge, solution, 1e-4) == []


OVERFLOWING = """
import numpy as np
from bridle import Epochs, Gap, KernelProblem, solve
X = 1e140 * np.random.default_rng(0).normal(size=(8, 3))
y = np.array([1, 1, 1, -1, -1, -1, -1, 1])
problem = KernelProblem(X, y, 1e150, kernel="linear", bias="free")
solve(problem, "smo", stop=Gap(1e-6) | Epochs(20))
"""


def test_smo_survives_kernel_values_that_overflow():
    """In a process of its own, which wrote past its arrays and was ended."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", OVERFLOWING], check=False)
    assert done.returncode == 0


EXTREMES = [(C, scale) for C in (1e-300, 1e300) for scale in (1e-150, 1.0, 1e150)]


def answers_of_all_solvers(problem, judge):
    """What is wrong with them, by name; nothing raises."""
    found = []
    for name in solver_names(problem):
        if solver_class(name, problem.offers).refusal(problem) is None:
            try:
                solution = solve(problem, name, stop=Gap(1e-6) | Epochs(20))
                found += [f"{name}: {wrong}" for wrong in judged(judge, solution, 1e-6)]
            except Exception as error:
                found.append(f"{name}: {type(error).__name__}: {error}")
    return found


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(("C", "scale"), EXTREMES)
def test_nothing_raises_at_the_ends_of_the_floats(C, scale, loss, bias):
    """An honest status, or an error when the problem is made."""
    X, y = forty_rows()
    X, y = scale * X[:8], noisy(y[:8])
    try:
        problem = LinearProblem(X, y, C, loss=loss, bias=bias, n_threads=1)
    except ValueError:
        return
    assert answers_of_all_solvers(problem, Linear(X, y, C, loss=loss, bias=bias)) == []


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(("C", "scale"), EXTREMES)
def test_nothing_raises_at_the_ends_of_the_floats_with_kernels(C, scale, kernel, bias):
    X, y = forty_rows()
    X, y = scale * X[:6], noisy(y[:6])
    try:
        problem = KernelProblem(X, y, C, kernel=kernel, gamma=1.0, bias=bias, n_threads=1)
    except ValueError:
        return
    judge = Kernelled(X, y, C, kernel=problem.kernel, bias=bias)
    assert answers_of_all_solvers(problem, judge) == []
