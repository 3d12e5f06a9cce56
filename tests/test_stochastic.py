"""The stochastic kernels equal short NumPy twins, and keep their promises."""

from __future__ import annotations

import math

import bridle
import numpy as np
import pytest
from bridle import (
    Epochs,
    Gap,
    LinearProblem,
    Norma,
    SgdM,
    SgdQn,
    SgdR,
    SgdS,
    Status,
    Steps,
    StochasticGradientDescent,
    ValidationLoss,
    _core,
    solve,
)
from bridle.objective.best_scale import best_scale
from bridle.solvers import solver_from
from bridle.solvers.shared.rate_ladder import search_eta0
from bridle.solvers.shared.stochastic import rate_of
from bridle.study.practice import gradient

import matrix


def permutation(rng, n):
    out = np.empty(n, np.int64)
    rng.permutation(out)
    return out


def signed_rows(problem):
    X = problem.X.todense() if hasattr(problem.X, "todense") else problem.X
    Z = np.asarray(X, np.float64) * problem.y[:, None]
    if problem.bias == "regularised":
        Z = np.column_stack([Z, problem.bias_scale * problem.y])
    return Z


def joined(problem, iterate):
    if problem.bias == "regularised":
        return np.append(iterate.w, iterate.b / problem.bias_scale)
    return iterate.w


def after_epochs(solver, problem, epochs, seed=5):
    for iterate in solver.iterates(problem, rng=_core.Rng(seed)):
        if iterate.epoch >= epochs:
            return iterate
    raise AssertionError


# -- twins ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", ["none", "regularised"])
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("loss", ["hinge", "perceptron"])
@pytest.mark.parametrize(
    "rate", ["constant", "eta0/t", "1/(lam sqrt t)", "1/(lam t)", "eta0/(1 + eta0 lam t)"]
)
def test_sgd_equals_its_twin(rate, loss, batch, bias):
    problem = matrix.small_problem(loss, bias)
    m, lam, eta0 = problem.n_rows, problem.lam, 0.3
    solver = StochasticGradientDescent(rate=rate, eta0=eta0, batch=batch)
    iterate = after_epochs(solver, problem, 2)
    Z, w, t = signed_rows(problem), 0.0, 0
    w = np.zeros(Z.shape[1])
    rng = _core.Rng(5)
    eta = {
        "constant": lambda t: eta0,
        "eta0/t": lambda t: eta0 / t,
        "1/(lam sqrt t)": lambda t: 1 / (lam * math.sqrt(t)),
        "1/(lam t)": lambda t: 1 / (lam * t),
        "eta0/(1 + eta0 lam t)": lambda t: eta0 / (1 + eta0 * lam * t),
    }[rate]
    for _ in range(2):
        for rows in permutation(rng, m).reshape(-1, batch):
            t += 1
            p = Z[rows] @ w
            wrong = p < 1 if loss == "hinge" else p <= 0
            g = lam * w - (problem.sample_weight[rows] * wrong) @ Z[rows] / batch
            w = w - eta(t) * g
    assert joined(problem, iterate) == pytest.approx(w, rel=1e-9, abs=1e-9)
    assert Z.T @ iterate.alpha == pytest.approx(w, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias_rate", [1.0, 0.3])
@pytest.mark.parametrize("rho", [0.02, 1.5])
def test_plain_descent_in_w_and_b_equals_its_twin(loss, bias_rate, rho, clip):
    problem = matrix.small_problem(loss, "free")
    m, lam = problem.n_rows, problem.lam
    solver = StochasticGradientDescent(
        rate="eta0/t", eta0=rho / lam, batch=5, bias_rate=bias_rate, clip=clip
    )
    iterate = after_epochs(solver, problem, 2)
    X, y, c = np.asarray(problem.X), problem.y, problem.sample_weight
    w, b, t, rng = np.zeros(X.shape[1]), 0.0, 0, _core.Rng(5)
    for _ in range(2):
        for rows in permutation(rng, m).reshape(-1, 5):
            t += 1
            eta = min(rho / t, 1.0 if clip else np.inf) / lam
            p = y[rows] * (X[rows] @ w + b)
            pull = eta / 5 * c[rows] * problem.loss.slope(p)
            if clip and loss == "squared_hinge":  # no row goes beyond where its loss is 0
                reach = 5 * (problem.squared_norms[rows] + bias_rate)
                pull = np.minimum(pull, np.maximum(0, 1 - p) / reach)
            w = (1 - eta * lam) * w + (pull * y[rows]) @ X[rows]
            b += bias_rate * (pull @ y[rows])
    assert iterate.w == pytest.approx(w, rel=1e-9, abs=1e-9)
    assert iterate.b == pytest.approx(b, rel=1e-9, abs=1e-9)


def test_a_bias_with_a_rate_is_returned_and_certified_as_it_is():
    problem = matrix.small_problem(bias="free")
    solver = StochasticGradientDescent(bias_rate=1.0)
    iterate = after_epochs(solver, problem, 3)
    solution = solve(problem, solver, stop=Epochs(3), seed=5, keep="final")
    assert solution.b == iterate.b
    assert solution.certificate.primal == pytest.approx(problem.primal(iterate.w, iterate.b))
    best = problem.loss.best_bias(problem.scores(iterate.w), problem.y, problem.cost)
    assert solution.certificate.primal > problem.primal(iterate.w, best)
    usual = solve(problem, StochasticGradientDescent(), stop=Epochs(3), keep="final")
    scores = problem.scores(usual.w)
    assert usual.b == problem.loss.best_bias(scores, problem.y, problem.cost)


@pytest.mark.parametrize("name", ["sgd", "gd"])
@pytest.mark.parametrize("dtype", matrix.DTYPES)
def test_a_rate_without_a_clip_may_diverge_and_says_so(name, dtype):
    problem = matrix.small_problem(dtype=dtype)
    settings = {"rate": "constant", "eta0": 3.0 / problem.lam}
    solution = solve(problem, solver_from(name, clip=False, **settings), stop=Epochs(5000))
    assert solution.status is Status.STALLED
    assert "the weights diverge at this rate" in solution.message
    assert "lam eta_t = 3" in solution.message
    assert np.isfinite(solution.w).all()
    clipped = solve(problem, solver_from(name, **settings), stop=Epochs(50))
    assert clipped.status is Status.BUDGET


def test_gradient_descent_that_finds_its_own_length_has_nothing_to_clip():
    with pytest.raises(ValueError, match="clip=False is for steps of a given rate"):
        solver_from("gd", clip=False)


@pytest.mark.parametrize("L", [1, 2, 7])
@pytest.mark.parametrize("bias", [-1.6, 0.3, 1.0, 2.5])
def test_presentations_at_a_held_bias_equal_single_ones(L, bias):
    problem = matrix.small_problem()
    Z, c, y, lam = signed_rows(problem), problem.sample_weight, problem.y, problem.lam
    m, t0 = len(Z), 40
    steps = _core.steps.margin_perceptron(
        problem.rows.view, problem.signed_cost / problem.C, problem.squared_norms,
        np.zeros(problem.n_features + 1), np.zeros(m), offset=0.0, slope=lam, presented=t0,
        repeat=L, repeats="exact", sampling="epochs", bucket=1,
    )  # fmt: skip
    steps.bias = bias
    steps.run(2 * m, _core.Rng(5))
    a, counts, t, rng = np.zeros(Z.shape[1]), np.zeros(m), t0, _core.Rng(5)
    for _ in range(2):
        for i in permutation(rng, m):
            for _ in range(L):
                if a @ Z[i] + lam * t * y[i] * bias <= lam * t and c[i] > 0:
                    a += c[i] * Z[i]
                    counts[i] += 1
                t += 1
    ours, visits = np.empty(problem.n_features + 1), np.empty(m)
    steps.output(ours, visits)
    np.testing.assert_array_equal(visits, counts)
    assert ours[:-1] == pytest.approx(a, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ["pegasos", "sgd-s", "sgd-m"])
def test_a_held_bias_balances_the_dual_point(name):
    problem = matrix.small_problem(bias="free")
    optimum = solve(problem, "dcd", stop=Gap(1e-6)).certificate.primal
    for epochs in (30, 300):
        iterate = after_epochs(solver_from(name), problem, epochs)
        off = abs(iterate.alpha @ problem.y) / iterate.alpha.sum()
        assert off <= 50 / (epochs * problem.n_rows)  # some rows, of all epochs together
    assert problem.primal(iterate.w, iterate.b) <= 1.02 * optimum


def test_batch_perceptron_equals_its_twin():
    problem = matrix.small_problem(bias="regularised")
    iterate = after_epochs(bridle.BatchPerceptron(), problem, 12)
    Z, c = signed_rows(problem), problem.sample_weight
    w, counts = np.zeros(Z.shape[1]), np.zeros(len(Z))
    for _ in range(12):
        wrong = c * (Z @ w <= 0) / len(Z)
        w, counts = w + wrong @ Z, counts + wrong
    assert joined(problem, iterate) == pytest.approx(w, rel=1e-12)
    scale = counts.sum() / (w @ w)  # D is highest there
    assert iterate.alpha == pytest.approx(scale * counts, rel=1e-12)


def test_batch_perceptron_separates_what_can_be_separated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y = np.sign(X @ [1.0, -2.0, 0.5, 1.0])
    found = solve(LinearProblem(X, y), "batch-perceptron", stop=Epochs(10_000))
    assert found.status is Status.SEPARATED
    assert (y * (X @ found.w)).min() > 0


REFUSALS = {
    "mpu": "one dual variable at a time", "sgd-qn": "its regulariser gives",
    "norma": "nothing lets b decay", "perceptron": "a constant feature",
    "margin-perceptron": "a constant feature", "batch-perceptron": "a constant feature",
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_a_free_bias_is_refused_with_a_reason(name):
    with pytest.raises(ValueError, match=f"{name} cannot have bias='free': .*{REFUSALS[name]}"):
        solve(matrix.small_problem(bias="free"), name)


def test_norma_is_one_method_in_linear_and_kernel_form():
    X, y = matrix.small_data()
    linear, kernel = LinearProblem(X, y, 0.2), bridle.KernelProblem(X, y, 0.2, kernel="linear")
    rho = 0.01
    eta0 = rho / linear.lam
    own = bridle.KernelNorma(eta0=eta0)
    assert own.window(kernel) == Norma(eta0=eta0).settings(linear, 0)[1]  # as long a memory
    rng = _core.Rng(5)
    rng.next()  # the linear form draws a seed for its calibration
    ours = next(Norma(eta0=eta0).iterates(linear, rng=_core.Rng(5)))
    other = next(own.iterates(kernel, rng=rng))
    assert X.T @ other.w.coefficients == pytest.approx(ours.w, rel=1e-9, abs=1e-12)
    assert other.alpha == pytest.approx(ours.alpha, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("L", [1, 2, 7])
@pytest.mark.parametrize("C", [1e-3, 0.5, 100.0])
def test_multiple_updates_equal_single_presentations(L, C):
    problem = matrix.small_problem(C=C, bias="regularised")
    iterate = after_epochs(SgdM(repeat=L), problem, 2)
    Z, c, lam = signed_rows(problem), problem.sample_weight, problem.lam
    a, t, counts, rng = np.zeros(Z.shape[1]), 0, np.zeros(len(Z)), _core.Rng(5)
    for _ in range(2):
        for i in permutation(rng, len(Z)):
            for _ in range(L):
                if a @ Z[i] <= lam * t and c[i] > 0:
                    a += c[i] * Z[i]
                    counts[i] += 1
                t += 1
    assert joined(problem, iterate) == pytest.approx(a / (lam * t), rel=1e-9, abs=1e-12)
    assert iterate.alpha == pytest.approx(problem.cost * counts / (2 * L), rel=1e-12)


def test_the_multiplicity_of_sgd_m_is_that_of_the_paper():
    assert [SgdM().repeats()[0](T) for T in range(1, 20)] == 2 * [5, 5, 5, 5, 1, 1, 1, 1, 1] + [5]


def schedule(epoch):
    return (3, 1, 4, 2)[epoch % 4]


@pytest.mark.parametrize("solver", [SgdM(), SgdM(repeat=schedule)])
@pytest.mark.parametrize("C", [1e-3, 0.5, 100.0])
def test_a_schedule_of_multiplicities_equals_its_twin(solver, C):
    problem = matrix.small_problem(C=C, bias="regularised")
    m, repeat = problem.n_rows, solver.repeats()[0]
    iterates = solver.iterates(
        problem, rng=_core.Rng(5), pace=lambda step: 70 - step % 70
    )  # also inside epochs
    Z, c, lam = signed_rows(problem), problem.sample_weight, problem.lam
    a, t, step, presented = np.zeros(Z.shape[1]), 0, 0, 0
    counts, rng, iterate = np.zeros(m), _core.Rng(5), next(iterates)
    for epoch in range(1, 12):
        presented += repeat(epoch)  # of each row, when the epoch is over
        for i in permutation(rng, m):
            for _ in range(repeat(epoch)):
                if a @ Z[i] <= lam * t and c[i] > 0:
                    a += c[i] * Z[i]
                    counts[i] += 1
                t += 1
            step += 1
            if step == iterate.step:
                assert joined(problem, iterate) == pytest.approx(a / (lam * t), rel=1e-9, abs=1e-12)
                assert iterate.alpha == pytest.approx(problem.cost * counts / presented, rel=1e-12)
                assert (iterate.alpha <= problem.cost).all()
                if step == epoch * m:  # then w is alpha's own
                    assert Z.T @ iterate.alpha == pytest.approx(a / (lam * t), rel=1e-9, abs=1e-12)
                iterate = next(iterates)


def test_a_schedule_must_present_each_row():
    with pytest.raises(ValueError, match="repeat must be at least 1, got 0"):
        SgdM(repeat=0)
    with pytest.raises(ValueError, match="repeat must be at least 1, got 0"):
        solve(matrix.small_problem(), SgdM(repeat=lambda epoch: 3 - epoch), stop=Epochs(5))


def test_a_warm_start_of_sgd_m_counts_as_one_of_its_first_epochs():
    problem = matrix.small_problem()
    first = solve(problem, SgdM(), stop=Epochs(20))
    iterates = SgdM().iterates(problem, start=first, rng=_core.Rng(0))
    counts = 5 * first.alpha / np.where(problem.cost > 0, problem.cost, 1)
    for epoch, presented in enumerate((10, 15, 20, 25, 26), start=1):
        iterate = next(iterates)
        assert iterate.epoch == epoch
        assert (iterate.alpha <= problem.cost).all()
        new = presented * iterate.alpha / np.where(problem.cost > 0, problem.cost, 1) - counts
        assert new == pytest.approx(np.round(new), abs=1e-9)  # whole updates
        counts += new
        assert signed_rows(problem).T @ iterate.alpha == pytest.approx(iterate.w, rel=1e-6)


def test_forward_backward_presentations_meet_the_first_threshold():
    problem, L = matrix.small_problem(), 4
    iterate = after_epochs(SgdM(repeat=L, multiple="forward-backward"), problem, 2)
    Z, c, lam = signed_rows(problem), problem.sample_weight, problem.lam
    a, t, rng = np.zeros(Z.shape[1]), 0, _core.Rng(5)
    for _ in range(2):
        for i in permutation(rng, len(Z)):
            for _ in range(L):
                if a @ Z[i] <= lam * t and c[i] > 0:
                    a += c[i] * Z[i]
            t += L
    assert iterate.w == pytest.approx(a / (lam * t), rel=1e-9, abs=1e-12)


def test_sgd_s_is_sgd_at_one_over_lam_t():
    problem = matrix.small_problem(weighted=False)
    a = after_epochs(SgdS(), problem, 3)
    # w_t is tested after the step in one and before it in the other; ties at p = 1 differ.
    b = after_epochs(StochasticGradientDescent(rate="1/(lam t)"), problem, 3)
    assert a.w == pytest.approx(b.w, rel=1e-9)


def test_perceptron_equals_its_twin():
    problem = matrix.small_problem()
    raw = solver_from("margin-perceptron", margin=0.5)
    iterate = after_epochs(raw, problem, 2)
    Z, c = signed_rows(problem), problem.sample_weight
    threshold = 0.5 * np.max(np.sum(Z**2, axis=1))
    w, rng = np.zeros(Z.shape[1]), _core.Rng(5)
    for _ in range(2):
        for i in permutation(rng, len(Z)):
            if w @ Z[i] <= threshold:
                w += c[i] * Z[i]
    s = best_scale(Z @ w, w @ w, problem.cost)
    assert iterate.w == pytest.approx(w, rel=1e-9)
    # Judged at its best scale.
    assert problem.judge(iterate).w == pytest.approx(s * w, rel=1e-9)


@pytest.mark.parametrize("many", [True, False])
def test_mpu_equals_its_twin(many):
    problem, B = matrix.small_problem(bias="regularised"), 4
    solver = solver_from("mpu", quanta=B, many=many)
    iterate = after_epochs(solver, problem, 1)
    Z = signed_rows(problem)
    q, h = np.sum(Z**2, axis=1), problem.cost / B
    w, held, rng = np.zeros(Z.shape[1]), np.zeros(len(Z)), _core.Rng(5)
    for i in permutation(rng, len(Z)):
        if h[i] == 0:
            continue
        if q[i] == 0:
            held[i] = B
            continue
        slack = 1 - w @ Z[i]
        n = np.trunc(slack / (h[i] * q[i]))
        n = np.clip(n if many else np.sign(n), -held[i], B - held[i])
        held[i] += n
        w += n * h[i] * Z[i]
    assert joined(problem, iterate) == pytest.approx(w, rel=1e-12, abs=1e-12)
    assert iterate.alpha == pytest.approx(h * held, rel=1e-12)


def test_sgd_qn_equals_its_twin():
    problem, skip, eta0 = matrix.small_problem(), 7, 0.5
    iterate = after_epochs(SgdQn(eta0=eta0, skip=skip), problem, 2)
    Z, c, lam = signed_rows(problem), problem.sample_weight, problem.lam
    w, B = np.zeros(Z.shape[1]), np.full(Z.shape[1], eta0)
    rng, until, learn = _core.Rng(5), skip, False
    for _ in range(2):
        for i in permutation(rng, len(Z)):
            before, slope = w.copy(), float(w @ Z[i] < 1)
            w = w + c[i] * slope * B * Z[i]
            if learn:
                dg = -c[i] * (float(w @ Z[i] < 1) - slope) * Z[i]
                dw = w - before
                r = np.full(len(w), lam)
                moved = dw != 0
                r[moved] = np.clip(lam + dg[moved] / dw[moved], lam, 100 * lam)
                B = B / (1 + skip * B * r)
                learn = False
            until -= 1
            if until == 0:
                w, until, learn = w - skip * lam * B * w, skip, True
    assert iterate.w == pytest.approx(w, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("tau", [5, 40])
def test_norma_equals_its_twin_and_the_bound_on_truncation_holds(tau):
    problem = matrix.small_problem(C=0.2)
    eta0 = 0.05 / problem.lam
    solver = Norma(eta0=eta0, terms=tau)
    m, rho = problem.n_rows, 0.05
    kernel = _core.steps.norma(
        problem.rows.view, problem.signed_cost, problem.squared_norms,
        np.zeros(problem.n_features + 1), np.zeros(m), rho, tau, "epochs", 1,
    )  # fmt: skip
    kernel.run(3 * m, _core.Rng(5))
    assert kernel.n_terms <= tau
    Z, terms, rng = signed_rows(problem), [], _core.Rng(5)
    everything = np.zeros(Z.shape[1])
    for _ in range(3):
        for i in permutation(rng, m):
            w = sum((a * Z[j] for a, j in terms), np.zeros(Z.shape[1]))
            p = w @ Z[i]
            terms = [((1 - rho) * a, j) for a, j in terms]
            new = rho * m * problem.cost[i] if p < 1 else 0.0
            terms = [*terms, (new, i)][-tau:]
            everything = (1 - rho) * everything + new * Z[i]
    w = sum((a * Z[j] for a, j in terms), np.zeros(Z.shape[1]))
    ours, alpha = np.empty(problem.n_features + 1), np.empty(m)
    kernel.output(ours, alpha)
    assert ours[:-1] == pytest.approx(w, rel=1e-9, abs=1e-9)
    longest = np.sqrt(problem.squared_norms)
    bound = m * np.max(problem.cost * longest) * (1 - rho) ** tau
    assert np.linalg.norm(everything - w) <= bound
    assert solver.settings(problem, 0) == (pytest.approx(rho), tau)


# -- promises ---------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [SgdS(), SgdM(), SgdM(multiple="forward-backward")])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_the_box_holds_exactly_after_complete_epochs_and_inside_them(solver, C):
    problem = matrix.small_problem(C=C)
    rng = np.random.default_rng(0)
    iterates = solver.iterates(
        problem, rng=_core.Rng(1), pace=lambda step, rows=1: int(rng.integers(1, 60))
    )
    for _ in range(60):
        iterate = next(iterates)
        assert np.all(iterate.alpha >= 0)
        assert np.all(iterate.alpha <= problem.cost)
    if iterate.epoch == int(iterate.epoch):
        assert signed_rows(problem).T @ iterate.alpha == pytest.approx(iterate.w, rel=1e-6)


def test_complete_epochs_certify_with_the_solvers_own_point():
    problem = matrix.small_problem()
    for name in ("sgd-s", "sgd-m", "svmsgd", "sgd"):
        assert solve(problem, name, stop=Epochs(8)).certificate.source == "solver", name
    assert solve(problem, SgdR(), stop=Epochs(8)).certificate.source == "repair"


@pytest.mark.parametrize("schedule", [[1], [6], [5, 1], [1, 2, 7]])
def test_the_free_dual_bound_is_the_dual(schedule):
    problem, epochs = matrix.small_problem(), 48
    m, lam = problem.n_rows, problem.lam
    kernel = _core.steps.margin_perceptron(
        problem.rows.view, problem.signed_cost / problem.C, problem.squared_norms,
        np.zeros(problem.n_features + 1), np.zeros(m), offset=0.0, slope=lam, presented=0,
        repeat=1, repeats="exact", sampling="epochs", bucket=1,
    )  # fmt: skip
    rng, repeats = _core.Rng(0), epochs // len(schedule) * schedule
    for repeat in repeats:
        kernel.set_repeat(repeat)
        kernel.run(m, rng)
    t = kernel.presented
    a, counts = np.empty(problem.n_features + 1), np.empty(m)
    kernel.output(a, counts)
    free = (kernel.weighted_sum / t - kernel.squared_norm / (2 * lam * t * t)) / lam
    assert free == pytest.approx(problem.dual(problem.cost * counts / sum(repeats)), rel=1e-9)


def test_the_estimated_gap_comes_near_the_true_one():
    problem = matrix.small_problem(n_rows=2000)
    iterate = after_epochs(SgdS(coefficient=1.0), problem, 20)
    exact = problem.judge(iterate)
    gap = (exact.primal - exact.dual) / exact.primal
    # It meets each row at an older w.
    assert gap / 3 <= iterate.gap_estimate <= 3 * gap


def test_the_coefficient_scales_the_estimate():
    problem = matrix.small_problem()
    one, two = (next(SgdS(coefficient=k).iterates(problem, rng=_core.Rng(0))) for k in (1.0, 2.0))
    assert one.gap_estimate == pytest.approx(2 * two.gap_estimate)


def test_mpu_proves_its_bound_with_a_quiet_pass():
    problem = matrix.small_problem(weighted=False)
    B = 16
    kernel = _core.steps.margin_perceptron_unlearning(
        problem.rows.view, problem.signed_cost, problem.squared_norms,
        np.zeros(problem.n_features + 1), np.zeros(problem.n_rows), B, False, 1,
    )  # fmt: skip
    rng = _core.Rng(0)
    for _ in range(10_000):
        kernel.run(problem.n_rows, rng)
        if kernel.updates == 0:
            break
    assert kernel.updates == 0
    w, shares = np.empty(problem.n_features + 1), np.empty(problem.n_rows)
    kernel.output(w, shares)
    gap = problem.primal(w[:-1]) - problem.dual(problem.cost * shares)
    assert 0 <= gap <= problem.cost**2 @ problem.squared_norms / B


def test_perceptron_stops_when_the_data_are_separated():
    X, _ = matrix.small_data()
    y = np.where(X @ np.arange(1.0, 13.0) >= 0, 1.0, -1.0)
    keep = np.abs(X @ np.arange(1.0, 13.0)) > 1
    problem = LinearProblem(X[keep], y[keep])
    for name, why in (("perceptron", "no mistakes left"), ("margin-perceptron", "no row left")):
        solution = solve(problem, name, stop=Gap(1e-9) | Epochs(10_000))
        assert solution.epochs < 10_000
        assert np.all(problem.y * problem.scores(solution.w) > 0)
        assert solution.status is Status.SEPARATED
        assert solution.message.startswith(f"stopped with {why}")
        assert solution.certificate.primal == solution.trace[-1].primal_now
        assert f"gap of {solution.certificate.relative_gap:.1e}" in solution.message


def test_best_scale_is_a_minimum():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p, cost = rng.normal(size=20), rng.random(20)
        norm = rng.random() * 5 + 1e-3

        def value(s, p=p, cost=cost, norm=norm):
            return 0.5 * s * s * norm + cost @ np.maximum(0, 1 - s * p)

        s = best_scale(p, norm, cost)
        grid = np.linspace(0, max(2 * s, 1), 2001)
        assert value(s) <= min(map(value, grid)) + 1e-9


@pytest.mark.parametrize(
    ("name", "loss"), [(n, loss) for n, loss, bias in matrix.cells() if bias == "none"]
)
@pytest.mark.parametrize("C", [1e-4, 1e6])
def test_no_nan_on_columns_scaled_by_a_million(name, loss, C):
    solver = solver_from(name)
    X, y = matrix.small_data(dtype="float32")
    X = X * np.float32(10.0) ** np.linspace(-3, 6, X.shape[1], dtype=np.float32)
    problem = LinearProblem(X, y, C, loss=loss)
    solution = solve(problem, solver, stop=Epochs(10))
    assert np.isfinite(solution.w).all()
    assert np.isfinite([solution.certificate.primal, solution.certificate.dual]).all()
    assert solution.certificate.dual <= solution.certificate.primal


def test_the_repair_gains_by_its_pass():
    problem = matrix.small_problem(weighted=False)
    iterate = after_epochs(SgdR(), problem, 20)
    clipped = np.clip(iterate.alpha, 0, problem.upper)
    assert problem.judge(iterate).dual > problem.dual(clipped)


# -- good practice ----------------------------------------------------------------------------


def test_calibrated_rates_are_near_the_best():
    problem = matrix.small_problem(n_rows=400, weighted=False)
    eta0 = bridle.calibrate_rate(problem, sample=200)
    assert eta0 / 0.5 in 10.0 ** np.arange(-6.0, 2.0)

    def after_one(rate):
        solver = StochasticGradientDescent(rate="eta0/(1 + eta0 lam t)", eta0=rate)
        return solve(problem, solver, stop=Epochs(1)).certificate.primal

    assert after_one(eta0) <= 2 * min(after_one(r) for r in 10.0 ** np.arange(-6.0, 2.0))
    with pytest.raises(ValueError, match="positive"):
        bridle.calibrate_rate(problem, rates=[0.0])


@pytest.mark.parametrize("batch", [1, 20])
@pytest.mark.parametrize("rate", ["constant", "eta0/t", "eta0/(1 + eta0 lam t)"])
def test_calibration_tries_the_schedule_that_will_be_used(rate, batch):
    problem = matrix.small_problem(n_rows=400, weighted=False)
    ladder = 10.0 ** np.arange(-6.0, 2.0)

    def above(eta0):
        solver = StochasticGradientDescent(rate=rate, eta0=eta0, batch=batch)
        # 30 steps at least, as in a trial
        iterate = after_epochs(solver, problem, max(1, 30 * batch / 400))
        return problem.primal(iterate.w)

    best = min(map(above, ladder))
    assert above(bridle.calibrate_rate(problem, rate=rate, batch=batch)) <= 1.5 * best
    assert above(None) <= 1.5 * best


def test_the_search_follows_the_scale_of_the_data():
    X, y = matrix.small_data(n_rows=300)
    ratio = search_eta0(LinearProblem(X, y)) / search_eta0(LinearProblem(1000 * X, y))
    assert 1e4 < ratio < 1e8


def test_recalibrating_goes_on():
    problem = matrix.small_problem(n_rows=200)
    solver = StochasticGradientDescent(rate="constant", recalibrate_every=150, sample=50)
    solution = solve(problem, solver, stop=Steps(1000))
    assert solution.steps == 1000
    assert np.isfinite(solution.w).all()


def test_validation_loss_stops_and_is_in_the_trace():
    X, y = matrix.small_data(n_rows=400)
    problem = LinearProblem(X[:100], y[:100], C=100.0)
    stop = ValidationLoss(X[100:], y[100:], patience=3) | Epochs(500)
    solution = solve(problem, "dcd", stop=stop)
    losses = solution.trace["validation_loss"]
    assert solution.epochs < 500
    assert "held-out loss" in solution.message
    best = int(np.argmin(losses))
    waited = solution.trace["epoch"][-1] - solution.trace["epoch"][best]
    assert best <= len(losses) - 1 - 3
    assert 3 <= round(waited, 6) < 4
    assert len(solution.trace["validation_error"]) == len(solution.trace["primal"])
    record = solution.trace[0]
    assert record.validation["validation_loss"] >= 0
    with pytest.raises(ValueError, match="label"):
        ValidationLoss(X, y[:5])


def test_epochs_a_priori():
    problem = matrix.small_problem(n_rows=800, weighted=False)
    solution = bridle.epochs_a_priori(problem, "svmsgd", max_epochs=15)
    assert 1 <= solution.epochs <= 15
    assert solution.epochs == int(solution.epochs)


@pytest.mark.parametrize(("loss", "bias"), matrix.settings())
def test_gradients_by_finite_differences(loss, bias):
    problem = matrix.small_problem(loss, bias)
    w = np.random.default_rng(3).normal(size=problem.n_features)
    b = 0.0 if bias == "none" else 0.3
    assert bridle.check_gradient(problem, w, b) < 1e-6
    assert gradient(problem, w, b)[0].shape == (problem.n_features,)


def test_margin_report():
    problem = matrix.small_problem(weighted=False)
    solution = solve(problem, "dcd", stop=Gap(1e-8))
    report = bridle.margin_report(problem, solution.w, solution.b, solution.alpha)
    assert report.margin == pytest.approx(2 / np.linalg.norm(solution.w))
    assert report.beyond + report.inside + report.misclassified == problem.n_rows
    slack = np.maximum(0, 1 - problem.y * problem.scores(solution.w))
    assert report.misclassified == np.sum(slack > 1)
    assert report.support_vectors >= report.inside + report.misclassified
    assert "support vectors" in str(report)


def test_rates_are_what_they_say():
    lam, eta0 = 0.01, 0.5
    assert rate_of("1/(lam t)", lam).at(4) == pytest.approx(0.25)
    assert rate_of("1/(lam sqrt t)", lam).at(4) == pytest.approx(0.5)
    assert rate_of("constant", lam, eta0).at(9) == pytest.approx(lam * eta0)
    assert rate_of("eta0/t", lam, eta0).at(5) == pytest.approx(lam * eta0 / 5)
    assert rate_of("eta0/(1 + eta0 lam t)", lam, eta0).at(3) == pytest.approx(
        lam * eta0 / (1 + eta0 * lam * 3)
    )
    with pytest.raises(ValueError, match="rate must be one of"):
        StochasticGradientDescent(rate="fast")


@pytest.mark.parametrize("solver", ["pegasos", "svmsgd", "sgd-s"])
def test_the_order_of_the_file_does_not_matter(solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 8))
    y = np.where(X[:, 0] + rng.standard_normal(20_000) > 0.5, 1.0, -1.0)
    optimum = solve(LinearProblem(X, y, 0.1, bias="regularised"), "dcd", stop=Gap(1e-4))

    def above(order):
        problem = LinearProblem(X[order], y[order], 0.1, bias="regularised")
        return max(
            solve(problem, solver, stop=Epochs(2), seed=seed, keep="final").certificate.primal
            for seed in range(3)
        ) / optimum.certificate.primal - 1  # fmt: skip

    assert above(np.argsort(y, kind="stable")) < 2 * above(np.arange(20_000)) + 0.01
