"""Links between parts: messages down a tree, sums up it, in one process."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from bridle.objective.rounding import Interval
from bridle.rows.cluster.links import (
    FANOUT,
    TOKEN,
    Branch,
    LinkError,
    TreePart,
    children,
    connect,
    depth,
    framed,
    host_of,
    is_summed,
    joined,
)
from bridle.rows.cluster.messages import Look
from bridle.rows.cluster.packed import pack, unpack

TOKENS = bytes(range(TOKEN))


class Worker:
    """A part that knows its number."""

    def __init__(self, number):
        self.number, self.lock, self.heard = number, threading.Lock(), []
        self.node = TreePart(number, self.work, self.lock, "127.0.0.1", TOKENS)

    def work(self, method, message):
        (vector,) = unpack(message)
        self.heard.append(vector)
        if method == "fail" and self.number == 2:
            raise ValueError("of part 2")
        return 0.5 * self.number, pack((self.number * vector, self.number))


def grown(n):
    workers = [Worker(k) for k in range(n)]
    below = children(n)
    for worker in workers:
        worker.node.join([workers[k].node.address for k in below[worker.number]])
    return workers, Branch([connect(workers[k].node.address, TOKENS) for k in below[-1]])


def asked(branch, method, vector, summed):
    branch.send(framed((method, pack((vector,)), summed)))
    return branch.replies()


@pytest.mark.parametrize("n", [1, 2, 4, 5, 16, 23])
def test_all_parts_hear_and_are_heard(n):
    workers, branch = grown(n)
    vector = np.arange(1000.0)
    for _ in range(2):
        replies = asked(branch, "visit", vector, True)
        assert len(replies) == min(n, FANOUT)
        total, count = joined([unpack(a) for reply in replies for a in reply.answers])
        assert np.array_equal(total, vector * sum(range(n)))
        assert count == sum(range(n))
        assert max(reply.seconds for reply in replies) == 0.5 * (n - 1)
    # Between the parts: a vector down each of their links, and one up.
    between = sum(reply.moved for reply in replies)
    assert between == 2 * vector.nbytes * (n - len(replies))
    each = [unpack(a) for reply in asked(branch, "who", vector, False) for a in reply.answers]
    assert [number for _, number in each] == list(range(n))
    assert all(len(worker.heard) == 3 for worker in workers)
    branch.close()


def test_an_error_comes_with_its_part_and_the_links_stay():
    _, branch = grown(7)
    replies = asked(branch, "fail", np.ones(3), True)
    (wrong,) = [reply for reply in replies if reply.error is not None]
    assert wrong.number == 2
    assert isinstance(wrong.error, ValueError)
    assert all(reply.error is None for reply in asked(branch, "visit", np.ones(3), True))
    branch.close()


def test_who_loses_a_link_loses_all_above_it():
    workers, branch = grown(9)
    below = children(9)
    parent = next(k for k in range(9) if below[k])
    workers[below[parent][0]].node.close()
    with pytest.raises(LinkError):
        asked(branch, "visit", np.ones(3), True)
    branch.close()


def test_nobody_comes_in_without_the_token():
    worker = Worker(0)
    stranger = connect(worker.node.address, bytes(TOKEN))
    with pytest.raises(LinkError):
        stranger.receive()
    branch = Branch([connect(worker.node.address, TOKENS)])
    assert unpack(asked(branch, "who", np.ones(3), False)[0].answers[0])[1] == 0
    branch.close()


def test_what_was_on_its_way_when_links_were_cut_is_not_worked_on():
    worker = Worker(0)
    branch = Branch([connect(worker.node.address, TOKENS)])
    with worker.lock:  # busy
        branch.send(framed(("visit", pack((np.ones(3),)), True)))
        worker.node.close()
    with pytest.raises(LinkError):
        branch.replies()
    assert worker.heard == []


def test_a_part_that_is_gone_answers_nobody():
    workers, branch = grown(2)
    asked(branch, "who", np.ones(3), False)
    node = workers[0].node
    del workers
    assert node.closed
    with pytest.raises(LinkError):
        branch.links[0].receive()
    branch.close()


def test_everybody_has_one_above_and_few_below():
    for n in range(1, 100):
        below = children(n)
        assert sorted(k for own in below.values() for k in own) == list(range(n))
        assert max(map(len, below.values())) == min(n, FANOUT)
    assert [depth(n) for n in (1, 4, 5, 20, 21, 84, 85)] == [1, 1, 2, 2, 3, 3, 4]


def test_sums_of_answers():
    assert joined([Look(1.0, 0.5, 2.0), Look(2.5, 0.0, 1.0)]) == Look(3.5, 0.5, 3.0)
    assert joined([np.ones(2), np.ones(2)]).tolist() == [2.0, 2.0]
    assert joined([None, None]) is None
    assert joined([[1, (2.0, 3)], [10, (20.0, 30)]]) == [11, (22.0, 33)]
    both = joined([Interval(1.0, 2.0), Interval(3.0, 5.0)])
    assert both.low <= 4.0
    assert both.high >= 7.0
    single = joined([np.full(3, 2.0**24, np.float32), *[np.ones(3, np.float32)] * 2])
    assert single.dtype == np.float32
    assert np.array_equal(single, np.full(3, 2.0**24 + 2))
    assert is_summed("visit", (0, None))
    assert is_summed("several", ("judge", []))
    assert not is_summed("gather", (0, 1.0, 0))


def test_links_are_for_plain_tcp():
    assert host_of("tcp://10.0.0.1:123") == "10.0.0.1"
    assert host_of("tcp://[::1]:123") == "::1"
    assert host_of("tls://10.0.0.1:123") is None
    assert host_of("inproc://10.0.0.1/1/2") is None
