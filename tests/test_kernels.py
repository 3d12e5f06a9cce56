"""Each kernel equals a short NumPy twin on the same order of rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from bridle import Epochs, Gap, HeldOutLoss, LinearProblem, Steps, _core, solve
from bridle.data import make_corpus
from bridle.solvers import Pegasos
from bridle.solvers.shared.gap_estimates import MANY_ROWS, GapEstimate
from scipy.sparse import csr_matrix

import matrix


def permutation(rng, n):
    out = np.empty(n, np.int64)
    rng.permutation(out)
    return out


def test_rng_is_pinned():
    """The same on every platform, for ever: seeds are promises."""
    rng = _core.Rng(0)
    assert [rng.next() for _ in range(2)] == [5987356902031041503, 7051070477665621255]
    assert 0 <= rng.uniform() < 1
    assert sorted(permutation(rng, 50)) == list(range(50))
    draws = np.array([_core.Rng(s).below(3) for s in range(3000)])
    assert np.all(np.abs(np.bincount(draws) / 3000 - 1 / 3) < 0.05)


@pytest.mark.parametrize("n_threads", [1, 4])
@pytest.mark.parametrize("storage", matrix.STORAGES)
@pytest.mark.parametrize("dtype", matrix.DTYPES)
def test_passes(dtype, storage, n_threads):
    problem = matrix.small_problem("hinge", "regularised", dtype, storage, n_threads=n_threads)
    X = np.asarray(problem.X.todense() if storage != "dense" else problem.X, np.float64)
    X1 = np.hstack([X, np.full((len(X), 1), problem.bias_scale)])
    rng = np.random.default_rng(0)
    w, c = rng.normal(size=X1.shape[1]), rng.normal(size=len(X1))
    scores, out = np.empty(len(X1)), np.empty(X1.shape[1])
    _core.rows.combine_and_score(problem.rows.view, c, out, w, scores, n_threads)
    assert scores == pytest.approx(X1 @ w)
    assert out == pytest.approx(X1.T @ c)
    assert problem.squared_norms == pytest.approx((X1**2).sum(axis=1))
    W, b, few = np.zeros((5, X.shape[1])), np.zeros(5), np.empty((len(X), 4))
    with pytest.raises(ValueError, match="column for each function"):
        _core.rows.scores_of_all(problem.rows.view, W, b, few, n_threads)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 47, 48, 49, 120])
@pytest.mark.parametrize("storage", matrix.STORAGES)
@pytest.mark.parametrize("dtype", matrix.DTYPES)
def test_scores_by_many_functions(dtype, storage, n):
    rows = matrix.small_problem("hinge", "regularised", dtype, storage).rows
    X = np.asarray(rows.X.todense() if storage != "dense" else rows.X, np.float64)
    rng = np.random.default_rng(n)
    W, b = rng.normal(size=(n, X.shape[1])), rng.normal(size=n)
    W[n // 2] = W[0]
    b[n // 2] = b[0]  # equals: the first one is meant
    plain = X @ W.T + b
    alone = rows.with_threads(1).scores_of_all(W, b)
    assert alone == pytest.approx(plain)
    for n_threads in (1, 2, 3, 8, 16):
        here = rows.with_threads(n_threads)
        assert np.array_equal(here.scores_of_all(W, b), alone)
        best = np.empty(len(X), np.int64)
        here.best_of_all(W, b, best)
        assert np.array_equal(best, alone.argmax(axis=1))


def dcd_twin(Z, cost, q, loss, buckets):
    """The first epoch: rows in buckets, each with the step of a problem of the rows so far."""
    alpha, w = np.zeros(len(Z)), np.zeros(Z.shape[1])
    m = sum(map(len, buckets))
    before = 2 * np.mean(cost) * np.mean(q) * m
    seen = 0
    for bucket in buckets:
        scale = (m + before) / (seen + before)
        for i in bucket:
            d = 0.0 if loss == "hinge" else 0.5 / cost[i]
            upper = cost[i] if loss == "hinge" else np.inf
            gradient = scale * (Z[i] @ w) - 1
            length = scale * q[i] + d
            target = -gradient / length if length > 0 else upper
            alpha[i] = min(max(target, 0.0), upper)
            w += alpha[i] * Z[i]
        seen += len(buckets[0])
    for bucket in buckets[: -(-len(buckets) // 8)]:  # the first ones, again
        for i in bucket:
            new = exact_step(alpha[i], Z[i] @ w, cost[i], q[i], loss)
            w += (new - alpha[i]) * Z[i]
            alpha[i] = new
    return alpha, w


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("storage", matrix.STORAGES)
def test_first_epoch_of_dcd_equals_its_twin(loss, storage):
    problem = matrix.small_problem(loss, "none", "float64", storage)
    kernel = _core.steps.dual_coordinate_descent(
        problem.rows.view, loss, problem.signed_cost, problem.squared_norms,
        np.zeros(problem.n_rows), 0.0, np.inf, 1, 1,
    )  # fmt: skip
    kernel.visit(_core.Rng(0), 8, 1.0)
    X = np.asarray(problem.X.todense() if storage != "dense" else problem.X)
    useful = np.flatnonzero(problem.cost)
    order = permutation(_core.Rng(0), -(-len(useful) // 8))
    buckets = [useful[8 * k : 8 * k + 8] for k in order]
    alpha, w = dcd_twin(X * problem.y[:, None], problem.cost, problem.squared_norms, loss, buckets)
    ours_alpha, ours_w = np.empty(problem.n_rows), np.empty(problem.n_features + 1)
    kernel.alpha(ours_alpha)
    kernel.weights(ours_w)
    assert ours_alpha == pytest.approx(alpha, abs=1e-12)
    assert ours_w[:-1] == pytest.approx(w, abs=1e-12)


def exact_step(alpha, margin, cost, q, loss):
    """Where the dual is largest along one variable."""
    d = 0.0 if loss == "hinge" else 0.5 / cost
    upper = cost if loss == "hinge" else np.inf
    target = alpha - (margin - 1 + alpha * d) / (q + d) if q + d > 0 else upper
    return min(max(target, 0.0), upper)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_later_epochs_of_dcd_equal_their_twin(loss):
    problem = matrix.small_problem(loss, "none", "float64", "csr-32")
    rng = np.random.default_rng(0)
    alpha = rng.random(problem.n_rows) * problem.cost
    kernel = _core.steps.dual_coordinate_descent(
        problem.rows.view, loss, problem.signed_cost, problem.squared_norms, alpha, 0.0, np.inf, 1,
        1,
    )  # fmt: skip
    # A bucket as large as the data leaves the rows in their own order.
    kernel.visit(_core.Rng(0), problem.n_rows, 1.0)
    Z = np.asarray(problem.X.todense()) * problem.y[:, None]
    w = alpha @ Z
    for i in np.flatnonzero(problem.cost):
        new = exact_step(alpha[i], Z[i] @ w, problem.cost[i], problem.squared_norms[i], loss)
        w += (new - alpha[i]) * Z[i]
        alpha[i] = new
    ours_alpha, ours_w = np.empty(problem.n_rows), np.empty(problem.n_features + 1)
    kernel.alpha(ours_alpha)
    kernel.weights(ours_w)
    assert ours_alpha == pytest.approx(alpha, abs=1e-12)
    assert ours_w[:-1] == pytest.approx(w, abs=1e-12)


def pegasos_twin(Z, cost, loss, radius, batches):
    """Also the average of w_1..w_T."""
    m, w = len(Z), np.zeros(Z.shape[1])
    total = np.zeros_like(w)
    for t, batch in enumerate(batches, start=1):
        total += w
        p = Z[batch] @ w
        slope = (p < 1) * 1.0 if loss == "hinge" else 2 * np.maximum(0, 1 - p)
        step = m / (len(batch) * t) * cost[batch] * slope
        if loss == "squared_hinge":  # no row moves w beyond the point where its own loss is 0
            reach = len(batch) * np.sum(Z[batch] ** 2, axis=1)
            step = np.where(reach > 0, np.minimum(step, (1 - p) / np.maximum(reach, 1e-300)), 0)
            step = np.maximum(step, 0)
        w = (1 - 1 / t) * w + step @ Z[batch]
        norm = np.linalg.norm(w)
        if norm > radius:
            w *= radius / norm
    return w, total / len(batches)


@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("batch", [1, 6])
@pytest.mark.parametrize("output", ["last", "average"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_pegasos_equals_its_twin(loss, output, batch, project):
    problem = matrix.small_problem(loss, "none", "float64", "csr-32")
    steps = 2 * problem.n_rows // batch
    solver = Pegasos(batch=batch, project=project, output=output)
    iterates = solver.iterates(problem, rng=_core.Rng(5))
    for iterate in iterates:
        if iterate.step == steps:
            break
    rng = _core.Rng(5)
    rows = [permutation(rng, problem.n_rows) for _ in range(2)]
    radius = np.sqrt(problem.loss.squared_radius(problem.cost)) if project else np.inf
    Z = np.asarray(problem.X.todense()) * problem.y[:, None]
    last, average = pegasos_twin(
        Z, problem.cost, loss, radius, np.concatenate(rows).reshape(steps, batch)
    )
    assert iterate.w == pytest.approx(last if output == "last" else average, rel=1e-8, abs=1e-8)
    # Its dual point reproduces w (before the problem clips it into the box).
    assert Z.T @ iterate.alpha == pytest.approx(iterate.w, rel=1e-8, abs=1e-8)


def sgd_settings(rho, bias_rate=0.0):
    """Steps of constant length: the scale of the weights is soon too small, and is absorbed."""
    return _core.steps.SgdSettings(
        rate=_core.steps.Rate(rho, 0.0, 0.0), steps_before=0, batch=1, radius=np.inf,
        bias_rate=bias_rate, sampling="epochs", bucket=1, keep_random=False,
    )  # fmt: skip


def outputs(steps, which, problem):
    """w and b, and alpha."""
    w, alpha = np.empty(problem.n_features + 1), np.empty(problem.n_rows)
    b = steps.output(which, w, alpha)
    return np.append(w[:-1], b), alpha


def sgd_twin(problem, rho, bias_rate, order):
    """(w, b) and alpha before every step, and after the last."""
    Z = np.asarray(problem.X.todense()) * problem.y[:, None]
    w, b, alpha = np.zeros(problem.n_features), 0.0, np.zeros(problem.n_rows)
    for i in order:
        yield np.append(w, b), alpha.copy()
        wrong = Z[i] @ w + problem.y[i] * b < 1
        length = rho * len(Z) * problem.cost[i] * wrong
        alpha *= 1 - rho
        alpha[i] += length
        w = (1 - rho) * w + length * Z[i]
        b += bias_rate * length * problem.y[i]
    yield np.append(w, b), alpha


@pytest.mark.parametrize("bias_rate", [0.0, 0.3])
def test_averages_of_sgd_and_its_free_bias_equal_their_twin(bias_rate):
    problem = matrix.small_problem("hinge", "free", "float64", "csr-32", C=0.01)
    m, rho = problem.n_rows, 0.2
    assert (1 - rho) ** (4 * m) < 1e-9**3  # so often is the scale absorbed
    steps = _core.steps.stochastic_gradient(
        problem.rows.view, "hinge", problem.signed_cost, problem.squared_norms,
        np.zeros(problem.n_features + 1), 0.0, np.zeros(m), sgd_settings(rho, bias_rate),
    )  # fmt: skip
    rng, twin_rng = _core.Rng(5), _core.Rng(5)
    steps.run(m, rng)
    steps.restart_average()
    steps.run(3 * m, rng)
    order = np.concatenate([permutation(twin_rng, m) for _ in range(4)])
    weights, alphas = map(np.array, zip(*sgd_twin(problem, rho, bias_rate, order), strict=True))
    # S v - u is a difference of sums up to 1e9 times as large as what is left of it.
    for which, chosen in (("last", [4 * m]), ("average", np.arange(m, 4 * m))):
        w, alpha = outputs(steps, which, problem)
        assert w == pytest.approx(weights[chosen].mean(axis=0), rel=1e-6, abs=1e-7)
        assert alpha == pytest.approx(alphas[chosen].mean(axis=0), rel=1e-6, abs=1e-7)


def test_averages_over_parts_of_the_data_are_booked_on_their_rows():
    whole = matrix.small_problem("hinge", "none", "float64", "csr-32", C=0.01)
    m, rho, ends = whole.n_rows, 0.05, (0, 50, whole.n_rows)
    parts = [
        LinearProblem(whole.X[a:b], whole.y[a:b], whole.C, sample_weight=whole.sample_weight[a:b])
        for a, b in itertools.pairwise(ends)
    ]
    inputs = [(p.rows.view, p.signed_cost, p.squared_norms) for p in parts]
    rows, signed_cost, squared_norms = inputs[0]
    steps = _core.steps.stochastic_gradient(
        rows, "hinge", signed_cost, squared_norms, np.zeros(whole.n_features + 1), 0.0,
        np.zeros(m), sgd_settings(rho),
    )  # fmt: skip
    steps.restart_average()
    rng, twin_rng, order = _core.Rng(5), _core.Rng(5), []
    for part, first, arrays in zip(parts, ends[:-1], inputs, strict=True):
        steps.enter(*arrays, first)
        steps.run(part.n_rows, rng)
        order += list(first + permutation(twin_rng, part.n_rows))
    weights, alphas = map(np.array, zip(*sgd_twin(whole, rho, 0.0, order), strict=True))
    w, alpha = outputs(steps, "average", whole)
    assert w == pytest.approx(weights[:-1].mean(axis=0), rel=1e-9, abs=1e-12)
    assert alpha == pytest.approx(alphas[:-1].mean(axis=0), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("sampling", ["iid", "without-replacement", "epochs"])
@pytest.mark.parametrize("output", ["last", "average", "tail-average", "random"])
@pytest.mark.parametrize("start", ["zero", "random"])
def test_pegasos_in_every_variant_comes_close(sampling, output, start):
    problem = matrix.small_problem(weighted=False, C=0.05)
    best = solve(problem, "dcd").certificate.primal
    solver = Pegasos(batch=3, sampling=sampling, output=output, start=start)
    solution = solve(problem, solver, stop=Steps(6000), seed=1)
    assert solution.certificate.primal <= 1.1 * best


def test_dcd_goes_on_after_an_epoch_without_a_gap():
    # The gap seen is exactly 0, or below by rounding: no rate follows from it.
    estimate = GapEstimate()
    assert [estimate.after(seen) for seen in (0.4, 0.0, 0.1, -1e-20, 0.1)] == [0.1, 0, 0.1, 0, 0.1]


def dcd_kernel(problem, n_blocks=1, n_threads=1):
    return _core.steps.dual_coordinate_descent(
        problem.rows.view, problem.loss.core, problem.signed_cost, problem.squared_norms,
        np.zeros(problem.n_rows), 0.0, problem.bias_precision, n_blocks, n_threads,
    )  # fmt: skip


def state_of(kernel):
    alpha, w = np.empty(kernel.n_rows), np.empty(kernel.n_weights)
    kernel.alpha(alpha)
    kernel.weights(w)
    return alpha, w


def test_parts_of_an_epoch_are_an_epoch():
    problem = matrix.small_problem()
    whole, parts = dcd_kernel(problem), dcd_kernel(problem)
    one, other = _core.Rng(3), _core.Rng(3)
    for _ in range(4):
        done = whole.visit(one, 4, 1.0)
        visits, finished = 0, False
        while not finished:
            part = parts.visit(other, 4, 0.3)
            visits, finished = visits + part.visits, part.finished
        assert visits == done.visits
        assert part.gap == pytest.approx(done.gap)
        assert part.dual == pytest.approx(done.dual)
    for a, b in zip(state_of(whole), state_of(parts), strict=True):
        assert a == pytest.approx(b)


@pytest.mark.parametrize("bias", ["none", "regularised"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_drawn_rows_show_the_gap(loss, bias):
    X, y = make_corpus(3000, seed=0)
    problem = LinearProblem(X, y, 0.1, loss=loss, bias=bias)
    kernel, rng = dcd_kernel(problem), _core.Rng(0)
    kernel.visit(rng, 32, 1.0)
    alpha, w = state_of(kernel)
    split, b = problem.split(w, kernel.bias)
    gap = problem.primal(split, b) - problem.dual(np.clip(alpha, 0, problem.upper))
    drawn = [kernel.sample(rng, 400) for _ in range(50)]
    found, error = np.mean([d.gap for d in drawn]), np.mean([d.error for d in drawn])
    assert found == pytest.approx(gap, abs=4 * error / np.sqrt(50) + 1e-4 * gap)
    assert np.std([d.gap for d in drawn]) == pytest.approx(error, rel=0.5)
    assert 0 < error < gap
    assert kernel.sample_resting(rng, 100).gap == 0  # there are none
    with pytest.raises(ValueError, match="n must be"):
        kernel.sample(rng, 0)


def test_drawn_rows_show_the_gap_of_those_that_rest():
    X, y = make_corpus(3000, seed=0)
    problem = LinearProblem(X, y, 1.0)
    kernel, rng = dcd_kernel(problem), _core.Rng(0)
    for _ in range(4):
        kernel.visit(rng, 32, 1.0)
    alpha, w = state_of(kernel)
    gap = problem.primal(w[:-1]) - problem.dual(np.clip(alpha, 0, problem.upper))
    active, resting = (
        np.mean([draw(rng, 1000).gap for _ in range(200)])
        for draw in (kernel.sample, kernel.sample_resting)
    )
    assert kernel.n_active < 2000
    assert active + resting == pytest.approx(gap, rel=0.1)


def problem_for_blocks(loss="hinge", bias="none"):
    """Enough rows for blocks, of so few features that they stand in each other's way.

    Their steps together go too far, and are shortened.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 50)) + 0.5
    y = np.where(X @ rng.normal(size=50) + rng.normal(size=len(X)) > 3, 1.0, -1.0)
    return LinearProblem(X, y, 0.01, loss=loss, bias=bias, bias_scale=2.0)


def problem_for_rounds(loss="hinge", bias="none", storage=np.asarray):
    """Enough rows for rounds, so different that many may step from the same w."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 64))
    y = np.where(X @ rng.normal(size=64) + 4 * rng.normal(size=len(X)) > 1, 1.0, -1.0)
    return LinearProblem(storage(X), y, 0.01, loss=loss, bias=bias, bias_scale=2.0)


@pytest.mark.parametrize(
    ("n_blocks", "made"),
    [(1, problem_for_blocks), (4, problem_for_blocks), (2, problem_for_rounds)],
)
@pytest.mark.parametrize("bias", ["none", "regularised"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_dual_that_dcd_keeps_is_that_of_its_alpha(loss, bias, n_blocks, made):
    problem = made(loss, bias)
    kernel, rng = dcd_kernel(problem, n_blocks), _core.Rng(0)
    for _ in range(4):
        kept = kernel.visit(rng, 8, 1.0).dual
        alpha, w = state_of(kernel)
        assert kept == pytest.approx(problem.dual(np.clip(alpha, 0, problem.upper)), rel=1e-9)
        expected = problem.X.T @ (alpha * problem.y)
        assert w[:-1] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("bias", ["none", "regularised"])
def test_blocks_do_not_mind_the_threads(bias):
    problem, states = problem_for_blocks(bias=bias), []
    for n_blocks, n_threads in ((1, 1), (3, 1), (3, 2), (3, 3), (3, 5)):
        kernel, rng = dcd_kernel(problem, n_blocks, n_threads), _core.Rng(0)
        for _ in range(3):
            kernel.visit(rng, 8, 1.0)
        states.append(state_of(kernel))
    alone, first, *others = states
    assert not np.array_equal(alone[0], first[0])  # or there were no blocks
    for alpha, w in others:
        assert np.array_equal(alpha, first[0])
        assert np.array_equal(w, first[1])


@pytest.mark.parametrize("storage", [np.asarray, csr_matrix])
@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
def test_rounds_do_not_mind_the_threads(bias, storage):
    problem, states = problem_for_rounds(bias=bias, storage=storage), []
    for n_blocks, n_threads in ((1, 1), (2, 1), (2, 2), (2, 3), (2, 8), (2, 16)):
        kernel, rng = dcd_kernel(problem, n_blocks, n_threads), _core.Rng(0)
        for _ in range(4):
            done = kernel.visit(rng, 32, 1.0)
        states.append((*state_of(kernel), done.dual))
    alone, first, *others = states
    assert not np.array_equal(alone[0], first[0])  # or there were no rounds
    assert first[2] >= alone[2] - 0.01 * abs(alone[2])
    for alpha, w, dual in others:
        assert np.array_equal(alpha, first[0])
        assert np.array_equal(w, first[1])
        assert dual == first[2]


def test_rounds_are_not_for_neighbours_that_are_alike():
    """Rows many times over, side by side: together they would step as many times too far."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(625, 64)), 32, axis=0)
    y = np.repeat(rng.choice([-1.0, 1.0], 625), 32)
    problem = LinearProblem(X, y, 0.01)
    kernels = [dcd_kernel(problem, n_blocks, 2) for n_blocks in (1, 2)]
    for _ in range(5):
        one, other = (kernel.visit(_core.Rng(0), 32, 1.0).dual for kernel in kernels)
    assert other >= 0.85 * one


@pytest.mark.parametrize("bias", ["none", "regularised"])
def test_dcd_ends_its_epochs_though_every_iterate_is_judged(bias):
    X, y = make_corpus(MANY_ROWS, seed=0)
    X = X[:, :500].tocsr()
    problem = LinearProblem(X, y, 1.0, bias=bias)
    trusted = solve(problem, "dcd", stop=Gap(1e-4))
    watched = solve(problem, "dcd", stop=Gap(1e-4) | Epochs(100) | HeldOutLoss(X[:9], y[:9]))
    assert len(watched.trace) > watched.epochs
    assert watched.converged
    assert watched.epochs <= 1.5 * trusted.epochs


def test_dcd_goes_on_when_all_rows_rest():
    # Few kinds of rows and a small C: all alpha are at their bounds while the bias is on its way.
    sizes = [MANY_ROWS, 4, 6, 79]
    X = np.repeat([-1.076, -3.249, 0.751, -1.507], sizes)[:, None]
    y = np.repeat([-1.0, 1.0, -1.0, -1.0], sizes)
    problem = LinearProblem(X, y, 2.7e-5, bias="regularised")
    assert solve(problem, "dcd", stop=Gap(1e-6) | Epochs(100)).converged


def test_dcd_checks_what_it_is_given():
    problem = matrix.small_problem()
    kernel = _core.steps.dual_coordinate_descent(
        problem.rows.view, "hinge", problem.signed_cost, problem.squared_norms,
        np.zeros(problem.n_rows), 0.0, problem.bias_precision, 1, 1,
    )  # fmt: skip
    with pytest.raises(ValueError, match="entries"):
        kernel.alpha(np.empty(problem.n_rows - 1))
    with pytest.raises(ValueError, match="entries"):
        kernel.weights(np.empty(problem.n_features))
    with pytest.raises(ValueError, match="bucket"):
        kernel.visit(_core.Rng(0), 0, 1.0)
    for share in (0.0, 1.1, np.nan):
        with pytest.raises(ValueError, match="share"):
            kernel.visit(_core.Rng(0), 1, share)
    n = np.count_nonzero(problem.cost)
    assert kernel.visit(_core.Rng(0), 2**63 - 1, 1.0).visits == 2 * n  # one bucket, twice
    assert kernel.visit(_core.Rng(0), 2**63 - 1, 1.0).visits == n


def test_kernels_that_keep_arrays_take_none_that_must_be_converted():
    # A converted copy would be gone by the time it is read.
    problem = matrix.small_problem()
    n, w = problem.n_rows, np.zeros(problem.n_features + 1)
    short = problem.signed_cost.astype(np.float32)
    calls = (
        lambda: _core.steps.sgd_qn(problem.rows.view, "hinge", short, w, 0.1, 1.0, 1, "epochs", 1),
        lambda: _core.steps.norma(
            problem.rows.view, problem.signed_cost, short, w, np.zeros(n), 0.1, 10, "epochs", 1
        ),
        lambda: _core.steps.margin_perceptron_unlearning(
            problem.rows.view, short, problem.squared_norms, w, np.zeros(n), 2, False, 1
        ),
    )
    for call in calls:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            call()


def test_a_core_of_another_version_is_refused(monkeypatch):
    import bridle

    assert _core.version == bridle.__version__
    monkeypatch.setattr(_core, "version", "0.0.1")
    with pytest.raises(ImportError, match=r"of version 0\.0\.1.*rebuild"):
        bridle._check_core()
