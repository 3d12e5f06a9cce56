"""The loop: stopping rules, statuses, callbacks, interruption; and optima others agree with."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
from bridle import (
    Epochs,
    Gap,
    KernelPegasos,
    KernelProblem,
    LinearProblem,
    Seconds,
    Status,
    Steps,
    StochasticGradientDescent,
    Suboptimality,
    ValidationLoss,
    _core,
    solve,
)
from bridle.objective.certificate import Certificate, Record
from bridle.objective.point import Iterate
from bridle.solvers import Pegasos
from bridle.solving import loop
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as PeerLinearSVC

import matrix


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias", ["none", "regularised"])
def test_the_optimum_is_liblinears(loss, bias):
    problem = matrix.small_problem(loss, bias)
    ours = solve(problem, "dcd", stop=Gap(1e-9) | Epochs(10**5))
    peer = PeerLinearSVC(
        C=problem.C, loss=loss, dual=True, fit_intercept=bias == "regularised",
        intercept_scaling=problem.bias_scale, tol=1e-10, max_iter=10**6,
    ).fit(problem.X, problem.y, sample_weight=problem.sample_weight)  # fmt: skip
    theirs = problem.primal(peer.coef_[0], float(np.ravel(peer.intercept_)[0]))
    assert ours.certificate.primal == pytest.approx(theirs, rel=1e-6)
    assert ours.certificate.dual <= theirs


@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
def test_with_a_free_bias_the_optimum_is_libsvms(C):
    problem = matrix.small_problem("hinge", "free", C=C)
    ours = solve(problem, "dcd", stop=Gap(1e-8) | Epochs(10**5))
    peer = SVC(C=C, kernel="linear", tol=1e-9)
    peer.fit(problem.X, problem.y, sample_weight=problem.sample_weight)
    theirs = problem.primal(peer.coef_[0], float(peer.intercept_[0]))
    assert ours.certificate.primal == pytest.approx(theirs, rel=1e-6)


def test_messages_are_for_people():
    problem = matrix.small_problem()
    reached = solve(problem, stop=Gap(1e-3))
    assert reached.message.startswith("converged after ")
    assert "at a certified gap of " in reached.message
    assert reached.message.endswith("; asked for 1.0e-03")
    short = solve(problem, Pegasos(), stop=Gap(1e-9) | Epochs(2))
    assert short.status is Status.BUDGET
    assert short.message.startswith("stopped after 2 epochs at a certified gap of ")
    timed = solve(problem, Pegasos(), stop=Gap(1e-12) | Seconds(0.05))
    assert timed.status is Status.BUDGET
    assert " s at a certified gap of " in timed.message


def test_float32_reaches_its_limit_and_says_so():
    problem = matrix.small_problem(dtype="float32")
    solution = solve(problem, "dcd", stop=Gap(1e-15) | Epochs(20000))
    assert solution.status is Status.STALLED
    assert "float32" in solution.message
    assert solution.certificate.relative_gap < 1e-5


def test_steps_are_exact():
    problem = matrix.small_problem()
    assert solve(problem, Pegasos(), stop=Steps(137)).steps == 137
    assert solve(problem, Pegasos(batch=7), stop=Steps(5)).steps == 5


@pytest.mark.parametrize("epochs", [5, 0.07, 0.5, 2.3])
@pytest.mark.parametrize("batch", [1, 7, 100])
@pytest.mark.parametrize("solver", [Pegasos, StochasticGradientDescent, KernelPegasos])
def test_epochs_are_exact(solver, batch, epochs):
    X, y = np.random.default_rng(0).normal(size=(199, 4)), np.tile([1.0, -1.0], 100)[:199]
    problem = (
        LinearProblem(X, y, bias="none") if solver is not KernelPegasos
        else KernelProblem(X, y, kernel="rbf", bias="none")
    )  # fmt: skip
    found = solve(problem, solver(batch=batch), stop=Epochs(epochs))
    assert found.epochs >= epochs
    assert (found.steps - 1) * batch / 199 < epochs  # a step fewer would not have been enough
    assert found.epochs == found.steps * batch / 199


@pytest.mark.parametrize("name", ["sgd-s", "sgd-m", "svmsgd", "asgd", "sgd-qn", "norma", "mpu"])
def test_a_part_of_an_epoch_is_so_many_steps(name):
    problem = matrix.small_problem()
    found = solve(problem, name, stop=Epochs(0.1))
    assert found.steps == int(np.ceil(0.1 * problem.n_rows))


def test_steps_in_epochs_are_the_fewest():
    for n_rows in (1, 3, 100, 199, 10**9 + 7):
        for rows in (1, 7, 100):
            for epochs in (0.0, 1e-9, 0.01, 0.07, 1.0, 5.0, 2.3, 1e6):
                n = loop._steps_in(epochs, rows, n_rows)
                assert n * rows / n_rows >= epochs > (n - 1) * rows / n_rows


def test_rules_combine():
    rule = Gap(1e-3) | Epochs(10) | Seconds(5) | Steps(99)
    assert len(rule.rules) == 4
    assert rule.gap == 1e-3
    assert rule.steps == 99
    with pytest.raises(ValueError, match="tol must be at least 0"):
        Gap(float("nan"))


def test_callbacks_see_records_and_may_stop_the_run():
    seen = []
    solution = solve(
        matrix.small_problem(), Pegasos(), stop=Gap(1e-12),
        callbacks=[lambda record: seen.append(record) or len(seen) == 4],
    )  # fmt: skip
    assert solution.status is Status.INTERRUPTED
    assert len(seen) == 4
    assert seen[-1].primal == solution.certificate.primal
    assert [r.epoch for r in seen] == sorted(r.epoch for r in seen)


def test_ctrl_c_gives_the_best_so_far():
    def interrupt(record):
        if record.epoch >= 3:
            os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    options = {"stop": Gap(1e-12), "callbacks": [interrupt]}
    with pytest.raises(KeyboardInterrupt) as caught:
        solve(matrix.small_problem(), Pegasos(), **options)
    solution = caught.value.solution
    again = solve(matrix.small_problem(), Pegasos(), **options, interrupt="return")
    assert np.array_equal(solution.w, again.w)
    assert solution.status is Status.INTERRUPTED
    assert "Ctrl-C" in solution.message
    assert 0 < solution.certificate.relative_gap < 1
    assert signal.getsignal(signal.SIGINT) is handler


def test_solve_works_in_threads():
    results = []
    worker = threading.Thread(target=lambda: results.append(solve(matrix.small_problem())))
    worker.start()
    worker.join()
    assert results[0].converged


def test_warm_start_saves_work():
    problem = matrix.small_problem()
    cold = solve(problem, stop=Gap(1e-7) | Epochs(10**4))
    warm = solve(problem, stop=Gap(1e-7), start=cold)
    assert warm.epochs <= 2 < cold.epochs


def test_unknown_solver_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown solver 'adam'; known: auto, dcd"):
        solve(matrix.small_problem(), "adam")
    with pytest.raises(TypeError, match="name or a Solver"):
        solve(matrix.small_problem(), 3)
    with pytest.raises(ValueError, match="batch must be at least 1"):
        Pegasos(batch=0)


def test_a_separable_problem_without_loss_has_gap_zero():
    problem = LinearProblem(np.array([[2.0], [-2.0]]), [1, -1], 100.0)
    solution = solve(problem, stop=Gap(1e-6))
    assert solution.converged
    assert solution.w == pytest.approx([0.5])


def test_names_survive_the_import_of_their_modules():
    import bridle.fitting.certification
    import bridle.solving.loop

    assert callable(bridle.solve)
    assert callable(bridle.certify)


def test_trace_has_columns():
    solution = solve(matrix.small_problem(), Pegasos(), stop=Epochs(6))
    assert len(solution.trace["primal"]) == len(solution.trace)
    assert np.all(np.diff(solution.trace["primal"]) <= 0)
    assert np.all(np.diff(solution.trace["dual"]) >= 0)
    assert set(solution.trace.as_dicts()[0]) >= {"epoch", "seconds_solver", "relative_gap"}


HOVERING = {"rate": "constant", "eta0": 0.5}  # so that the last iterate is hardly ever the best


@pytest.mark.parametrize("output", ["last", "average", "tail-average", "random"])
@pytest.mark.parametrize("seed", range(4))
def test_the_final_iterate_is_what_the_solver_proposed_last(output, seed):
    problem = matrix.small_problem()
    solver = StochasticGradientDescent(output=output, **HOVERING)
    iterates = solver.iterates(problem, rng=_core.Rng(seed))
    for _ in range(7):
        proposed = next(iterates)
    final = solve(problem, solver, stop=Epochs(7), seed=seed, keep="final")
    assert np.array_equal(final.w, proposed.w)
    assert final.b == proposed.b
    assert final.certificate.primal == pytest.approx(problem.primal(final.w, final.b), rel=1e-12)
    assert final.scores == pytest.approx(problem.scores(final.w, final.b))
    best = solve(problem, solver, stop=Epochs(7), seed=seed)
    assert best.certificate.dual == final.certificate.dual
    last = final.trace[-1]
    assert last.primal_now == final.certificate.primal
    assert last.primal == best.certificate.primal <= final.certificate.primal
    assert best.certificate.primal == min(final.trace["primal_now"])


def test_a_hovering_iterate_is_worse_than_the_best():
    problem = matrix.small_problem()
    solver = StochasticGradientDescent(**HOVERING)
    runs = [
        [solve(problem, solver, stop=Epochs(9), seed=k, keep=keep) for keep in ("best", "final")]
        for k in range(5)
    ]
    assert any(final.certificate.primal > best.certificate.primal for best, final in runs)


def test_rules_stop_by_what_is_kept():
    problem, goal = matrix.small_problem(), 0.2
    solver = StochasticGradientDescent(**HOVERING)
    for seed in range(5):
        final = solve(problem, solver, stop=Gap(goal) | Epochs(60), seed=seed, keep="final")
        assert final.converged == (final.certificate.relative_gap <= goal)
        assert f"gap of {final.certificate.relative_gap:.1e}" in final.message
        earlier = [(r.primal_now - r.dual) / r.primal_now for r in final.trace[:-1]]
        assert not any(gap <= goal for gap in earlier)


def test_the_final_iterate_is_kept_whatever_a_rule_would_choose():
    problem = matrix.small_problem()
    watch = ValidationLoss(problem.X[:30], problem.y[:30], patience=2) | Epochs(12)
    solver = StochasticGradientDescent(**HOVERING)
    final = solve(problem, solver, stop=watch, keep="final")
    assert final.certificate.primal == final.trace[-1].primal_now
    assert "held-out loss of" not in final.message
    with pytest.raises(ValueError, match='keep must be "best" or "final", got \'last\''):
        solve(problem, keep="last")


@pytest.mark.parametrize("solver", ["dcd", "newton", "pegasos", "ocas"])
@pytest.mark.parametrize("tol", [0.3, 1e-2])
def test_a_gap_may_be_relative_to_the_dual_value(solver, tol):
    problem = matrix.small_problem()
    found = solve(problem, solver, stop=Gap(tol, relative_to="dual") | Epochs(10**4))
    assert found.converged
    assert found.certificate.primal / found.certificate.dual - 1 <= tol
    bound = found.certificate.suboptimality_bound
    assert found.message.endswith(f"gap of {bound:.1e} of the dual value; asked for {tol:.1e}")


def test_a_gap_relative_to_the_dual_value_is_the_smaller_part_of_the_primal_value():
    rule = Gap(0.25, relative_to="dual")
    assert rule.gap == 0.25 / 1.25
    assert (Gap(0.21) | rule).goal == Gap(0.21)
    assert (Gap(0.19) | rule).goal is rule
    assert Gap(float("inf"), relative_to="dual").gap == 1.0
    # P = 5, D = 4: (P - D) / P = 0.2 and P / D - 1 = 0.25, rounded up.
    met = Certificate(5.0, 4.0)
    assert Gap(0.2).of(met) == pytest.approx(0.2)
    assert rule.of(met) == pytest.approx(0.25)
    assert rule.of(met) >= 0.25
    assert rule.of(Certificate(5.0, 0.0)) == float("inf")
    with pytest.raises(ValueError, match='relative_to must be "primal" or "dual"'):
        Gap(0.1, relative_to="optimum")


def test_certificates_are_timed_for_a_gap_relative_to_the_dual_value():
    # An estimate of (P - D) / P that is below tol, while P / D - 1 is not, is no reason for one.
    problem, goal = matrix.small_problem(), Gap(1.0, relative_to="dual")
    run = loop.SolverRun(problem, goal, (), np.dtype(np.float64), next_epoch=100.0)
    run.trace.append(Record(10.0, 0.0, 0.0, 5.0, 1.0))
    for estimate, due in ((0.8, False), (0.51, False), (0.49, True)):
        run.last = Iterate(10, 10.0, np.zeros(problem.n_features), gap_estimate=estimate)
        assert run.certificate_due() == due


@pytest.mark.parametrize("solver", ["pegasos", "sgd-s"])
def test_the_first_iterate_near_a_known_optimum_ends_the_run(solver):
    problem, tol = matrix.small_problem(), 0.02
    optimum = solve(problem, "newton", stop=Gap(1e-10)).certificate.primal
    found = solve(problem, solver, stop=Suboptimality(tol, optimum=optimum) | Epochs(2000))
    assert found.converged
    assert found.certificate.primal <= (1 + tol) * optimum
    assert all(record.primal > (1 + tol) * optimum for record in found.trace[:-1])
    assert list(found.trace["epoch"]) == [k + 1 for k in range(len(found.trace))]
    above = found.certificate.primal / optimum - 1
    assert f"{above:.1e} above the optimum given, at a certified gap of" in found.message


def test_an_optimum_that_is_proven_too_low_ends_the_run():
    problem = matrix.small_problem()
    optimum = solve(problem, "newton", stop=Gap(1e-10)).certificate.primal
    low = solve(problem, "dcd", stop=Suboptimality(0.01, 0.9 * optimum) | Epochs(2000))
    assert low.status is Status.STALLED
    assert low.epochs < 2000
    assert "since no weights reach" in low.message
    for tol, value in ((-1.0, 1.0), (0.1, float("nan")), (0.1, float("inf")), (0.1, -1.0)):
        with pytest.raises(ValueError, match="must be"):
            Suboptimality(tol, value)
