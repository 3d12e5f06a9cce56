"""What we do not ship, defined as a user would, runs wherever our own things do, with a proof.

Every certificate is recomputed here in plain NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle.errors import OracleError
from bridle.objective.kernels import KERNELS, InnerProductKernel
from bridle.objective.kernels.settling import kernel_from
from bridle.objective.losses import LOSSES
from bridle.problems.kernel import IndefiniteKernelError
from bridle.rows.gram import kernel_matrix
from bridle.structured import ORACLES
from bridle.structured.ranking import LABELLING_LOSSES, RANKING_LOSSES
from click.testing import CliRunner
from sklearn.base import clone

GAP = 1e-3


# --- a loss -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rounded(bridle.Loss):
    """The hinge with a rounded corner: (1 - p)^2 / 2 for 0 < p < 1, 1/2 - p below."""

    name = "rounded"
    smooth = True

    def value(self, p):
        return np.where(p < 0, 0.5 - p, 0.5 * np.maximum(0, 1 - p) ** 2)

    def slope(self, p):
        return np.clip(1 - p, 0, 1)

    def upper(self, cost):
        return cost

    def dual_value(self, alpha, cost):
        used = cost > 0
        return float(alpha.sum() - np.sum(alpha[used] ** 2 / (2 * cost[used])))


def two_classes(n=150, d=6, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    return X, np.where(X @ rng.normal(size=d) + 0.3 + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)


def check_rounded_certificate(X, y, C, w, b, alpha, certificate, bias):
    """P and D from the formulas, with the bias as one more feature."""
    joined = np.column_stack([X.toarray() if sp.issparse(X) else X, np.full(len(y), bias)])
    weights = np.append(w, b if bias else 0.0)
    p = y * (joined @ weights)
    loss = np.where(p < 0, 0.5 - p, np.where(p < 1, 0.5 * (1 - p) ** 2, 0.0))
    primal = 0.5 * weights @ weights + C * loss.sum()
    assert (alpha >= 0).all()
    assert (alpha <= C).all()
    v = joined.T @ (alpha * y)
    dual = alpha.sum() - (alpha**2).sum() / (2 * C) - 0.5 * v @ v
    assert primal == pytest.approx(certificate.primal, rel=1e-9)
    assert dual == pytest.approx(certificate.dual, rel=1e-9, abs=1e-9)
    assert certificate.relative_gap <= GAP


@pytest.mark.parametrize("bias", ["none", "regularised"])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("solver", ["auto", "dcd", "pegasos", "svmsgd"])
def test_a_loss_of_ones_own_is_solved(solver, storage, bias):
    X, y = two_classes()
    problem = bridle.LinearProblem(storage(X), y, 0.05, loss=Rounded(), bias=bias)
    found = bridle.solve(problem, solver, stop=bridle.Gap(GAP) | bridle.Epochs(2000))
    assert found.converged, found.message
    constant = 1.0 if bias == "regularised" else 0.0
    check_rounded_certificate(
        storage(X), y, 0.05, found.w, found.b, found.alpha, found.certificate, constant
    )


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("solver", ["sgd", "svmsgd", "asgd", "gd"])
def test_a_loss_of_ones_own_under_the_other_gradient_methods(solver, bias):
    X, y = two_classes()
    problem = bridle.LinearProblem(X, y, 0.05, loss=Rounded(), bias=bias)
    found = bridle.solve(problem, solver, stop=bridle.Gap(1e-2) | bridle.Epochs(500))
    assert found.converged, found.message
    assert problem.primal(found.w, found.b) == pytest.approx(found.certificate.primal)
    assert problem.dual(found.alpha) == pytest.approx(found.certificate.dual)


def test_a_loss_of_ones_own_is_compared_and_certified():
    X, y = two_classes()
    problem = bridle.LinearProblem(X, y, 0.05, loss=Rounded())
    compared = bridle.compare(problem, ["dcd", "pegasos"], gap=GAP)
    assert all(run.certificate.relative_gap <= GAP for run in compared.runs)
    w = bridle.solve(problem, "dcd", stop=bridle.Gap(1e-6)).w
    certificate = bridle.certify(w, X, y, 0.05, loss=Rounded())
    assert certificate.relative_gap <= 1e-5


def test_a_loss_of_ones_own_in_the_estimator(tmp_path, monkeypatch):
    X, y = two_classes()
    model = bridle.LinearSVC(0.05, loss=Rounded(), tol=GAP).fit(X, y)
    check_rounded_certificate(
        X, y, 0.05, model.coef_[0], model.intercept_[0], np.abs(model.dual_coef_[0]),
        model.certificate_, 1.0,
    )  # fmt: skip
    assert clone(model).fit(X, y).score(X, y) > 0.7
    monkeypatch.setitem(LOSSES, "rounded", Rounded())  # and so by its name, in files too
    model.save(tmp_path / "model")
    again = bridle.load_model(tmp_path / "model")
    assert again.objective.loss == "rounded"
    assert bridle.certify_model(again, X, y)[0].relative_gap <= 1.1 * GAP


def test_a_loss_of_ones_own_is_solved_at_every_C_of_a_cross_validation():
    X, y = two_classes()
    Cs = [0.1, 0.1001, 0.1002]  # so near that the hinge's solutions certify each other
    own = bridle.LinearSVCCV(Cs, cv=2, loss=Rounded(), random_state=0).fit(X, y)
    assert own.n_solves_ < 2 * len(Cs)
    assert (own.gaps_ <= GAP).all()


def test_a_loss_of_ones_own_has_a_path():
    X, y = two_classes()
    loss = Rounded()
    found = bridle.path(X, y, 0.1, 1.0, gap=0.05, loss=loss)
    assert found.complete
    for C in (0.1, 0.2, 0.5, 1.0):
        solution, certificate = found.at(C)
        p = y * (X @ solution.w + solution.b)
        P = 0.5 * solution.w @ solution.w + C * loss.value(p).sum()
        assert certificate.primal == pytest.approx(P, rel=1e-9)
        best = bridle.solve(bridle.LinearProblem(X, y, C, loss=loss))
        assert certificate.dual <= best.certificate.primal


def test_a_free_bias_is_refused_by_name():
    X, y = two_classes()
    problem = bridle.LinearProblem(X, y, 0.05, loss=Rounded(), bias="free")
    for solver in ("auto", "dcd"):
        with pytest.raises(ValueError, match=f"{solver} cannot have bias='free' with the rounded"):
            bridle.solve(problem, solver)


def test_rows_on_disk_need_a_compiled_loss(tmp_path):
    from bridle.data import write_arrow

    X, y = two_classes()
    write_arrow(tmp_path / "d.arrow", sp.csr_matrix(X), y)
    problem = bridle.LinearProblem(bridle.StoredRows(tmp_path / "d.arrow"), loss=Rounded())
    with pytest.raises(ValueError, match="cannot minimise the rounded loss on rows that are not"):
        bridle.solve(problem, "auto")


@pytest.mark.parametrize("loss", [3, Rounded])
def test_what_is_no_loss_is_refused(loss):
    with pytest.raises(TypeError, match="loss must be a name or a Loss, got"):
        bridle.LinearSVC(loss=loss).fit(*two_classes())


def test_what_a_solver_needs_of_a_loss_is_said_in_words():
    from bridle.solvers.base import LOSS_NEEDS

    flags = {name for name, value in vars(bridle.Loss).items() if isinstance(value, bool)}
    assert flags <= set(LOSS_NEEDS)


@pytest.mark.parametrize("solver", ["newton", "ocas", "sgd-s", "interior-point"])
def test_solvers_that_need_more_of_a_loss_say_so(solver):
    X, y = two_classes()
    problem = bridle.LinearProblem(X, y, 0.05, loss=Rounded())
    with pytest.raises(ValueError, match=f"{solver} cannot minimise the rounded loss: it needs"):
        bridle.solve(problem, solver)


# --- a solver ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dual(bridle.Solver):
    """Projected gradient ascent on the dual: alpha <- clip(alpha + eta (1 - p), 0, C)."""

    eta: float = 0.1

    name = "dual-gradient"
    needs = frozenset({"weights", "scores"})

    def iterates(self, problem, *, start=None, rng, pace=None):
        alpha = problem.start_alpha(start)
        rate = self.eta / max(problem.squared_norms.sum(), 1e-300)
        step = 0
        while True:
            w = problem.rows.combine(alpha * problem.y)
            p = problem.y * problem.rows.scores(w)
            alpha = np.clip(alpha + rate * 10 * (1 - p), 0, problem.upper)
            step += 1
            joined = problem.rows.combine(alpha * problem.y)
            yield bridle.Iterate(step, float(step), *problem.split(joined), alpha)


def test_a_solver_of_ones_own():
    X, y = two_classes()
    problem = bridle.LinearProblem(X, y, 0.05, bias="regularised")
    stop = bridle.Gap(GAP) | bridle.Epochs(5000)
    found = bridle.solve(problem, Dual(eta=0.2), stop=stop)
    assert found.converged, found.message
    assert problem.primal(found.w, found.b) == pytest.approx(found.certificate.primal)
    assert problem.dual(found.alpha) == pytest.approx(found.certificate.dual)
    assert bridle.compare(problem, [Dual(eta=0.2), "dcd"], gap=GAP).runs[0].name == Dual.name
    fitted = bridle.LinearSVC(0.05, loss="hinge", solver=Dual(eta=0.2), tol=GAP, max_iter=5000).fit(
        X, y
    )
    assert fitted.certificate_.relative_gap <= GAP
    with pytest.raises(
        ValueError, match="dual-gradient needs a linear problem with a loss for each row"
    ):
        bridle.solve(bridle.KernelProblem(X, y), Dual())


# --- a Mercer kernel -------------------------------------------------------------------------


@dataclass(frozen=True)
class Laplacian(bridle.Kernel):
    """exp(-gamma |a - b|_1)."""

    gamma: float = 1.0

    name = "laplacian"
    semidefinite = True

    def values(self, A, B):
        return np.exp(-self.gamma * np.abs(A[:, None] - B[None]).sum(axis=2))


def rows(n=90, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


def check_kernel_certificate(problem, solution, tol=GAP):
    """P and D of an expansion over the rows, from the formula."""
    K = problem.kernel.values(problem.X, problem.X)
    c, b = solution.w.coefficients, solution.b
    loss = problem.cost @ np.maximum(0, 1 - problem.y * (K @ c + b))
    penalty = c @ K @ c + (b**2 if problem.bias == "regularised" else 0)
    beta = solution.alpha * problem.y
    assert (solution.alpha >= 0).all()
    assert (solution.alpha <= problem.cost * (1 + 1e-12)).all()
    if problem.bias == "free":
        assert abs(beta.sum()) <= 1e-9 * np.abs(beta).sum()
    K = K + (1 if problem.bias == "regularised" else 0)
    certificate = solution.certificate
    assert penalty / 2 + loss == pytest.approx(certificate.primal, rel=1e-9)
    assert solution.alpha.sum() - beta @ K @ beta / 2 == pytest.approx(certificate.dual, rel=1e-9)
    assert certificate.relative_gap <= tol


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("solver", ["auto", "smo", "pegasos", "sgd"])
def test_a_kernel_of_ones_own_is_solved(solver, bias):
    if solver == "pegasos" and bias == "free":
        pytest.skip("pegasos has no free bias")
    X, y = rows()
    problem = bridle.KernelProblem(X, y, kernel=Laplacian(0.5), bias=bias)
    tol = 0.05 if solver in ("pegasos", "sgd") else GAP
    solution = bridle.solve(problem, solver, stop=bridle.Gap(tol) | bridle.Epochs(3000))
    check_kernel_certificate(problem, solution, tol)


def test_a_kernel_of_ones_own_is_compared():
    X, y = rows()
    problem = bridle.KernelProblem(X, y, kernel=Laplacian(0.5))
    found = bridle.compare(problem, ["smo", bridle.KernelPegasos()], gap=GAP, max_epochs=50)
    assert {run.name for run in found.runs} == {"smo", "pegasos"}
    check_kernel_certificate(problem, found.runs[0])


def test_a_kernel_of_ones_own_in_the_estimator(tmp_path, monkeypatch):
    X, y = rows()
    model = clone(bridle.SVC(kernel=Laplacian(0.5), tol=GAP)).fit(X, y)
    assert model.certificate_.relative_gap <= GAP
    K = Laplacian(0.5).values(X, model.support_vectors_)
    expected = K @ model.dual_coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-12)
    by_function = bridle.SVC(kernel=Laplacian(0.5).values, tol=GAP).fit(X, y)
    np.testing.assert_array_equal(by_function.decision_function(X), model.decision_function(X))

    with pytest.raises(ValueError, match=r"cannot be kept.*KERNELS\['laplacian'\] = Laplacian"):
        model.save(tmp_path / "model")
    monkeypatch.setitem(KERNELS, "laplacian", Laplacian)
    model.save(tmp_path / "model")
    again = bridle.load_model(tmp_path / "model")
    assert again.kernel == Laplacian(0.5)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    named = bridle.SVC(kernel="laplacian", gamma=0.5, tol=GAP).fit(X, y)
    np.testing.assert_array_equal(named.decision_function(X), model.decision_function(X))
    assert kernel_from("laplacian", X).gamma == kernel_from("rbf", X).gamma


def test_a_kernel_of_ones_own_on_the_command_line(tmp_path, monkeypatch):
    from bridle.cli import main

    X, y = rows()
    data, path = tmp_path / "data.npz", tmp_path / "model"
    np.savez(data, X=X, y=y)
    line = ["train", str(data), str(path), "--kernel", "laplacian", "--gamma", "0.5"]
    refused = CliRunner().invoke(main, line)
    assert refused.exit_code == 2
    assert "'laplacian' is not one of 'linear', 'rbf', 'poly', 'sigmoid'" in refused.output

    class OfFiles(Laplacian):  # whose rows are sparse
        def values(self, A, B):
            return super().values(A.toarray(), B.toarray())

    monkeypatch.setitem(KERNELS, "laplacian", OfFiles)
    assert CliRunner().invoke(main, line, catch_exceptions=False).exit_code == 0
    expected = bridle.SVC(kernel=Laplacian(0.5)).fit(X, y).decision_function(X)
    found = bridle.load_model(path).decision_function(sp.csr_matrix(X))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)  # files hold float32


def test_a_kernel_function_of_csr_rows_may_be_sparse():
    X, y = rows()
    K = sp.csr_matrix(X)
    model = bridle.SVC(kernel=lambda A, B: A @ B.T, tol=GAP).fit(K, y)
    same = bridle.SVC(kernel="linear", tol=GAP).fit(K, y)
    np.testing.assert_allclose(model.decision_function(K), same.decision_function(K), atol=1e-6)
    with pytest.raises(TypeError, match="Sparse precomputed kernels are not supported"):
        bridle.SVC(kernel="precomputed").fit(K @ K.T, y)


def test_a_kernel_of_ones_own_is_approximated():
    X, _ = rows()
    features = bridle.Nystrom(X, 60, kernel=Laplacian(0.5))
    Z = features.transform(X)
    K = Laplacian(0.5).values(X, X)
    assert np.sqrt(((Z @ Z.T - K) ** 2).mean()) == pytest.approx(features.error.rms, rel=1e-6)


def test_a_kernel_that_is_none_is_found_out():
    class Distance(bridle.Kernel):
        name = "distance"

        def values(self, A, B):
            return np.sqrt(((A[:, None] - B[None]) ** 2).sum(axis=2))

    X, y = rows()
    with pytest.raises(IndefiniteKernelError, match="the distance kernel is not positive"):
        bridle.KernelProblem(X, y, kernel=Distance())


@pytest.mark.parametrize("name", [name for name in KERNELS if KERNELS.load(name).compiled])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_compiled_kernels_are_their_formulas(name, storage):
    X, _ = rows()
    kernel = kernel_from(name, X, gamma=0.3, coef0=0.5)
    assert isinstance(kernel, InnerProductKernel)
    expected = kernel.values(storage(X), storage(X))
    np.testing.assert_allclose(
        kernel_matrix(kernel, storage(X), storage(X)), expected, rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(kernel.diagonal((X**2).sum(axis=1)), expected.diagonal())
    assert kernel.spread(expected.diagonal()) >= expected.max() - expected.min()


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "precomputed"])
def test_registered_kernels_are_known_everywhere(name, tmp_path):
    from bridle.cli import main

    X, y = rows(n=40)
    kernel = kernel_from(name, X)
    dense, sparse = kernel.values(X, X), kernel.values(sp.csr_matrix(X), sp.csr_matrix(X))
    np.testing.assert_allclose(sparse, dense, rtol=1e-12, atol=1e-12)
    if kernel.semidefinite:
        assert np.linalg.eigvalsh(dense).min() >= -1e-10 * np.abs(dense).max()
    data, model = str(tmp_path / "data"), str(tmp_path / "model")
    bridle.data.write_svmlight(data, X, y)
    told = CliRunner().invoke(main, ["train", data, model, "--kernel", name, "--max-epochs", "9"])
    assert told.exit_code in (0, 3), told.output  # a sigmoid's gap is seldom finite
    assert type(bridle.load_model(model).kernel) is type(kernel)


# --- a ranking loss --------------------------------------------------------------------------


class Top(bridle.RankingLoss):
    """1 if the first document is not relevant; psi: the mean of the relevant ones less the first.

    An output is a document that is not relevant, put first, or the truth.
    """

    name = "top"

    def answer(self, grades, scores):
        relevant = grades > 0
        others = np.flatnonzero(~relevant)
        first = others[np.argmax(scores[others])]
        c = relevant / relevant.sum()
        c[first] = -1.0
        return (c, 1.0) if 1.0 - c @ scores > 0 else (np.zeros(len(c)), 0.0)

    def metric(self, grades, scores, qid=None):
        return bridle.metrics.precision_at_k(grades, scores, qid, k=1)


def queries(seed=0, n=12):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n), rng.integers(3, 9, n))
    X = rng.normal(size=(len(qid), 5))
    y = (X[:, 0] + rng.normal(size=len(qid)) > 0.5).astype(int)
    return X, y, qid


def top_risk(X, y, qid, w):
    """sum_q max(0, 1 - mean score of relevant + largest of others), where there are both."""
    total = 0.0
    for q in np.unique(qid):
        s, relevant = X[qid == q] @ w, y[qid == q] > 0
        if relevant.any() and not relevant.all():
            total += max(0.0, 1 - s[relevant].mean() + s[~relevant].max())
    return total


def check_structural_certificate(w, alpha, certificate, C, risk):
    """P by its definition; D of (W, l), a line that is below the risk everywhere."""
    assert w @ w / 2 + C * risk(w) == pytest.approx(certificate.primal, rel=1e-9)
    W, loss = alpha[:-1], alpha[-1]
    assert loss - W @ W / 2 == pytest.approx(certificate.dual, rel=1e-9)
    rng = np.random.default_rng(0)
    for at in [w, W, *rng.normal(size=(50, len(w)))]:
        assert loss - at @ W <= C * risk(at) * (1 + 1e-9) + 1e-9
    assert certificate.relative_gap <= GAP


@pytest.mark.parametrize("solver", ["auto", "one-slack", "n-slack", "bcfw", "subgradient"])
def test_a_ranking_loss_of_ones_own_is_solved(solver):
    X, y, qid = queries()
    C = 0.5 if solver != "subgradient" else 0.01
    problem = bridle.RankingProblem(X, y, qid, C, loss=Top())
    solution = bridle.solve(problem, solver, stop=bridle.Gap(GAP) | bridle.Epochs(5000))
    check_structural_certificate(
        solution.w, solution.alpha, solution.certificate, C, lambda w: top_risk(X, y, qid, w)
    )


def test_a_ranking_loss_of_ones_own_in_the_estimator(tmp_path, monkeypatch):
    X, y, qid = queries()
    model = clone(bridle.RankSVM(Top(), C=0.5, tol=GAP)).fit(X, y, qid)
    primal = model.coef_ @ model.coef_ / 2 + 0.5 * top_risk(X, y, qid, model.coef_)
    assert primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert model.certificate_.relative_gap <= GAP
    scores = X @ model.coef_
    firsts = [y[qid == q][np.argmax(scores[qid == q])] for q in np.unique(qid)]
    assert model.score(X, y, qid) == pytest.approx(np.mean(firsts))

    with pytest.raises(ValueError, match=r"cannot be kept.*RANKING_LOSSES\['top'\]"):
        model.save(tmp_path / "model")
    monkeypatch.setitem(RANKING_LOSSES, "top", Top)
    model.save(tmp_path / "model")
    again = bridle.load_model(tmp_path / "model")
    assert again.loss == "top"
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(bridle.RankSVM("top", C=0.5).fit(X, y, qid).coef_, model.coef_)


def test_a_ranking_loss_of_ones_own_on_the_command_line(tmp_path, monkeypatch):
    from bridle.cli import main

    X, y, qid = queries()
    lines = [
        f"{grade} qid:{q + 1} " + " ".join(f"{k + 1}:{v!r}" for k, v in enumerate(x.tolist()))
        for x, grade, q in zip(X, y, qid, strict=True)
    ]
    (tmp_path / "data").write_text("\n".join(lines) + "\n")
    monkeypatch.setitem(RANKING_LOSSES, "top", Top)
    told = CliRunner().invoke(main, ["rank", "train", str(tmp_path / "data"), "--loss", "top"])
    assert told.exit_code == 0, told.output
    assert bridle.load_model(tmp_path / "data.model").certificate.relative_gap <= GAP


def test_a_ranking_loss_that_fails_names_the_query():
    class Failing(Top):
        name = "failing"

        def answer(self, grades, scores):
            if np.abs(scores).max() > 0:
                raise RuntimeError("no more")
            return super().answer(grades, scores)

    X, y, qid = queries()
    with pytest.raises(OracleError, match="no more") as caught:
        bridle.solve(bridle.RankingProblem(X, y, qid, loss=Failing()), "one-slack")
    assert caught.value.solution is not None


def test_every_ranking_loss_is_in_the_documentation(request):
    text = (request.config.rootpath / "docs" / "ranking.md").read_text()
    names = (*RANKING_LOSSES, *LABELLING_LOSSES)
    assert [name for name in names if f"| `{name}` |" not in text] == []  # rows of its table


# --- a structured model ----------------------------------------------------------------------


class Interval:
    """An interval of a sequence: Psi is the sum of its rows, Delta the positions that differ."""

    def __init__(self, n_features):
        self.n_features = n_features

    def features(self, x, y):
        return x[y[0] : y[1]].sum(axis=0)

    def loss(self, y, other):
        return float(len({*range(*y)} ^ {*range(*other)}))

    def outputs(self, x):
        return combinations(range(len(x) + 1), 2)

    def argmax(self, x, w, truth=None):
        """Positions have scores, and the loss is a sum over them: the best run of a sum."""
        scores = x @ w
        if truth is not None:
            inside = np.zeros(len(x))
            inside[truth[0] : truth[1]] = 1.0
            scores = scores + 1.0 - 2.0 * inside
        sums = np.concatenate([[0.0], np.cumsum(scores)])
        return max(self.outputs(x), key=lambda y: sums[y[1]] - sums[y[0]])

    def as_json(self):
        return {"n_features": self.n_features}

    @classmethod
    def from_json(cls, parts):
        return cls(int(parts["n_features"]))


def intervals(seed=0, n=15):
    rng = np.random.default_rng(seed)
    oracle, w = Interval(3), np.array([1.0, -0.5, 0.2])
    X = [rng.normal(size=(rng.integers(2, 7), 3)) for _ in range(n)]
    return oracle, X, [oracle.argmax(x + 0.5 * rng.normal(size=x.shape), w) for x in X]


def interval_risk(oracle, X, Y, w):
    """sum_i max_y [Delta - w.psi], over every interval."""
    return sum(
        max(
            oracle.loss(y, other) - w @ (oracle.features(x, y) - oracle.features(x, other))
            for other in oracle.outputs(x)
        )
        for x, y in zip(X, Y, strict=True)
    )


def test_an_oracle_of_ones_own_is_checked():
    oracle, X, Y = intervals()
    report = bridle.check_oracle(oracle, zip(X, Y, strict=True))
    assert report, str(report)
    assert report.n_brute_force == len(X)


@pytest.mark.parametrize("solver", ["auto", "one-slack", "n-slack", "bcfw", "subgradient"])
def test_an_oracle_of_ones_own_is_solved(solver):
    oracle, X, Y = intervals()
    C = 0.2 if solver != "subgradient" else 0.001
    problem = bridle.StructuredProblem(oracle, X, Y, C)
    solution = bridle.solve(problem, solver, stop=bridle.Gap(GAP) | bridle.Epochs(5000))
    check_structural_certificate(
        solution.w, solution.alpha, solution.certificate, C,
        lambda w: interval_risk(oracle, X, Y, w),
    )  # fmt: skip


def test_an_oracle_of_ones_own_in_the_estimator(tmp_path, monkeypatch):
    oracle, X, Y = intervals()
    model = bridle.StructuredSVM(oracle, C=0.2, tol=GAP).fit(X, Y)
    primal = model.coef_ @ model.coef_ / 2 + 0.2 * interval_risk(oracle, X, Y, model.coef_)
    assert primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert model.certificate_.relative_gap <= GAP

    model.save(tmp_path / "model")  # without its oracle, which is code
    again = bridle.StructuredSVM.load(tmp_path / "model", oracle)
    assert again.predict(X) == model.predict(X)
    with pytest.raises(ValueError, match="the oracle Interval is code"):
        bridle.StructuredSVM.load(tmp_path / "model")
    monkeypatch.setitem(ORACLES, "Interval", Interval)
    model.fit(X, Y).save(tmp_path / "model")
    assert bridle.StructuredSVM.load(tmp_path / "model").predict(X) == model.predict(X)
    assert bridle.load_model(tmp_path / "model").predict(X) == model.predict(X)


@pytest.mark.parametrize("name", list(ORACLES))
def test_registered_oracles_are_made_again(name, tmp_path):
    from structured_cases import ORACLES as CASES

    cases = {type(case[0]).__name__: case for case in (make() for make in CASES.values())}
    assert name in cases, "a line in ORACLES of tests/structured_cases.py is missing"
    oracle, X, Y = cases[name]
    model = bridle.StructuredSVM(oracle, C=0.1, tol=0.1).fit(X, Y)
    model.save(tmp_path / "model")
    assert bridle.StructuredSVM.load(tmp_path / "model").predict(X) == model.predict(X)
