"""How many threads: what the process may use, and what the user says."""

import os
import subprocess
import sys

import pytest
from bridle.matrix import threads
from bridle.matrix.threads import check_threads, usable_threads


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch):
    """Whatever this machine has, and whatever it is told."""
    for name in ("BRIDLE_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads._core, "hardware_threads", lambda: 16)
    monkeypatch.setattr(threads, "_group_limit", lambda: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)


def test_none_is_all_that_the_process_may_use(monkeypatch):
    assert check_threads(None) == usable_threads() == 16
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 7}, raising=False)
    assert check_threads(None) == 3  # as `taskset` has it
    monkeypatch.setattr(threads, "_group_limit", lambda: 2)
    assert check_threads(None) == 2


@pytest.mark.parametrize(("said", "n"), [("5", 5), ("6,2", 6), ("", 16), ("many", 16), ("0", 16)])
def test_openmps_number_is_a_limit(monkeypatch, said, n):
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert check_threads(None) == n
    assert check_threads(12) == 12  # what is asked for is done


def test_ours_comes_first(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.setenv("BRIDLE_THREADS", "9")
    assert check_threads(None) == 9


@pytest.mark.parametrize(("asked", "n"), [(1, 1), (40, 40), (-1, 16), (-2, 15), (-16, 1), (-99, 1)])
def test_numbers_as_joblib_has_them(asked, n):
    assert check_threads(asked) == n


@pytest.mark.parametrize("asked", [0, 2**15, -(2**15)])
def test_what_is_no_number_of_threads(asked):
    with pytest.raises(ValueError, match="n_threads must be at least 1"):
        check_threads(asked)


def test_the_share_of_a_control_group(tmp_path):
    assert threads._share(tmp_path) is None
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert threads._share(tmp_path) == 1.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert threads._share(tmp_path) is None
    old = tmp_path / "old"
    old.mkdir()
    (old / "cpu.cfs_quota_us").write_text("-1\n")
    (old / "cpu.cfs_period_us").write_text("100000\n")
    assert threads._share(old) is None
    (old / "cpu.cfs_quota_us").write_text("300000\n")
    assert threads._share(old) == 3.0


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_a_process_on_one_core_has_one_thread():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from bridle.matrix.threads import check_threads; print(check_threads(None))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_many_threads_that_solve_hand_the_interpreter_on_sooner():
    usual = sys.getswitchinterval()
    with threads.Threads(2, sharing=2), threads.Threads(8):
        assert sys.getswitchinterval() == usual
    with threads.Threads(8, sharing=8) as pool:
        with threads.Threads(6, sharing=6):
            assert sys.getswitchinterval() < usual
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
        assert sys.getswitchinterval() < usual
    assert sys.getswitchinterval() == usual


def test_a_program_ends_though_threads_wait_for_work():
    """As those of a pass over a disk that was left in the middle, which nobody shuts down."""
    code = (
        "from bridle.matrix.threads import Threads\n"
        "pool = Threads(2)\n"
        "print(pool.submit(sum, [1, 2]).result())"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert run.stdout == "3\n"
