"""The table of docs/losses.md, from what solvers, rows and problems say of themselves.

`python docs/_ext/loss_table.py` writes it; a test compares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from bridle import KernelProblem, LinearProblem, Loss, PenalisedProblem
from bridle.errors import DeviceError
from bridle.objective.bias import Bias
from bridle.objective.losses import LOSSES
from bridle.problems.base import WEIGHTS, Problem
from bridle.rows.cluster.rows import ClusterRows
from bridle.rows.cuda.placing import unfit
from bridle.rows.cuda.rows import CudaRows
from bridle.rows.disk.ranges import DiskRows
from bridle.solvers import REGISTRY, solver_class
from written import with_table

PAGE = Path(__file__).parents[1] / "losses.md"
MAKER = "docs/_ext/loss_table.py"

X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([-1.0, 1.0, 1.0])


class Elsewhere(LinearProblem):
    """A problem of which solvers see the rows of another home."""

    home: frozenset[str]

    @property
    def offers(self) -> frozenset[str]:
        """What those rows have."""
        return frozenset({WEIGHTS, *self.home})


def _bias(loss: Loss) -> Bias:
    return "free" if loss.one_class else "none"


def _elsewhere(loss: Loss, home: frozenset[str]) -> Problem:
    problem = Elsewhere(X, Y, loss=loss, bias=_bias(loss))
    problem.home = home
    return problem


def _on_gpu(loss: Loss) -> Problem:
    if (why := unfit(1.0, loss)) is not None:
        raise DeviceError(why)
    return _elsewhere(loss, CudaRows.offers)


# A problem of each loss, wherever its rows are: its maker refuses what is not there.
PLACES: dict[str, Callable[[Loss], Problem]] = {
    "memory": lambda loss: LinearProblem(X, Y, loss=loss, bias=_bias(loss)),
    "disk": lambda loss: _elsewhere(loss, DiskRows.offers),
    "cluster": lambda loss: _elsewhere(loss, ClusterRows.offers),
    "GPU": _on_gpu,
    "l1": lambda loss: PenalisedProblem(X, Y, loss=loss),
    "kernel": lambda loss: KernelProblem(X, Y, loss=loss, bias=_bias(loss)),
}


def places(loss: Loss) -> dict[str, list[str]]:
    """Solver -> where it minimises this loss."""
    found: dict[str, list[str]] = {name: [] for name in REGISTRY}
    for place, make in PLACES.items():
        try:
            problem = make(loss)
        except (ValueError, DeviceError):
            continue
        for name in REGISTRY:
            if solver_class(name, problem.offers).refusal(problem) is None:
                found[name].append(place)
    return found


def table() -> str:
    """A column for losses that are the same in it, and a row for such solvers."""
    found = {name: places(loss) for name, loss in LOSSES.items()}
    columns = _alike(found)
    cells = {
        solver: [", ".join(found[names[0]][solver]) or "-" for names in columns]
        for solver in REGISTRY
    }
    body = [
        [_code(names), *cells[names[0]]] for names in _alike(cells) if set(cells[names[0]]) != {"-"}
    ]
    head = ["solver", *(", ".join(names).replace("_", " ") for names in columns)]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _alike(things: Mapping[str, object]) -> list[list[str]]:
    """Names of equal things together, in the order in which they come first."""
    groups: list[list[str]] = []
    for name, thing in things.items():
        like = next((g for g in groups if things[g[0]] == thing), None)
        if like is None:
            groups.append([name])
        else:
            like.append(name)
    return groups


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def page() -> str:
    """The page with the table that the code has."""
    return with_table(PAGE, MAKER, table())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
