"""The examples in docstrings of public names run, and print what they say."""

from __future__ import annotations

import doctest
import inspect

import bridle
import pytest

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PUBLIC = {name: getattr(bridle, name) for name in bridle.__all__}
SHOWN = [name for name, value in PUBLIC.items() if ">>>" in (inspect.getdoc(value) or "")]


@pytest.mark.parametrize("name", SHOWN)
def test_the_example_runs(name):
    text = inspect.getdoc(PUBLIC[name])
    test = doctest.DocTestParser().get_doctest(text, {"bridle": bridle}, name, None, None)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
    assert result.attempted
    assert not result.failed, "".join(said)


def test_what_people_meet_first_has_one():
    first = {"LinearSVC", "LinearSVCCV", "SVC", "LogisticRegression", "LinearSVR", "RankSVM"}
    first |= {"ChainSVM", "OnlineSVC", "solve", "certify", "path", "explain", "LinearProblem"}
    assert first <= set(SHOWN)
