"""Every public class and function has an example in its docstring, which prints what it says."""

from __future__ import annotations

import doctest
import inspect

import bridle
import pytest
from bridle import data, metrics

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PUBLIC = {name: getattr(bridle, name) for name in bridle.__all__ if name != "__version__"}
PUBLIC |= {f"data.{name}": getattr(data, name) for name in data.__all__}
PUBLIC |= {
    f"metrics.{name}": value
    for name, value in vars(metrics).items()
    if inspect.isfunction(value) and value.__module__ == metrics.__name__ and name[0] != "_"
}
del PUBLIC["data.SvmlightError"]  # of the compiled core, which writes its docstring itself


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_is_there_and_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert PUBLIC[name].__doc__, f"{name} has no docstring of its own"
    test = doctest.DocTestParser().get_doctest(text, {"bridle": bridle}, name, None, None)
    assert test.examples, f"the docstring of {name} has no example"
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
    assert not result.failed, "".join(said)
