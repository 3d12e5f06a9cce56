"""Where a run is, saved at intervals, so that another process can go on from there.

A checkpoint is a file in the container of models: the solver's w, b and alpha, and what they
belong to. It is written under another name, flushed to the disk and renamed: whenever the process
dies, the file is the newest complete one. It holds no certificate: the run that goes on judges its
own points, from the data.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from bridle.files.container import Content, malformed_as_error, read_container, write_container
from bridle.files.schema import (
    COUNT,
    FINITE,
    NOT_NEGATIVE,
    STRING,
    TABLE,
    Arrays,
    check_arrays,
    table,
)
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector
from bridle.objective.point import Iterate
from bridle.problems.base import Problem
from numpy.typing import NDArray

HEADER = table({
    "identity": TABLE, "solver": STRING, "step": COUNT, "epoch": NOT_NEGATIVE, "b": FINITE,
})  # fmt: skip
ARRAYS: Arrays = {"w": ("f", 1), "alpha": ("f", 1)}


class CheckpointError(ValueError):
    """A checkpoint that does not belong to the run that is to go on from it.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> with open("run.ckpt", "w") as file:
    ...     count = file.write("no checkpoint")
    >>> try:
    ...     bridle.solve(problem, checkpoint=bridle.Checkpoint("run.ckpt"))
    ... except bridle.CheckpointError as error:
    ...     print(error)
    run.ckpt...
    """


@dataclass(frozen=True)
class SavedPoint:
    """What a checkpoint holds: a start for `solve`.

    identity: of the problem. step and epoch: of all runs that led here, by this solver.
    """

    identity: Mapping[str, Any]
    solver: str
    step: int
    epoch: float
    w: Array
    b: float
    alpha: Array | None

    kind: ClassVar[str] = "checkpoint"

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For the container."""
        fields = {
            "identity": dict(self.identity), "solver": self.solver, "step": self.step,
            "epoch": self.epoch, "b": self.b,
        }  # fmt: skip
        return fields, {"w": self.w} | ({} if self.alpha is None else {"alpha": self.alpha})

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """From the container; ValueError or KeyError if the parts are no checkpoint's."""
        HEADER(fields, "")
        check_arrays(arrays, ARRAYS)
        return cls(
            identity=fields["identity"], solver=fields["solver"], step=fields["step"],
            epoch=float(fields["epoch"]), b=float(fields["b"]),
            w=check_vector(arrays["w"], len(arrays["w"]), "w"), alpha=arrays.get("alpha"),
        )  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """Save the run to `path` every so many seconds, as soon as the solver offers an iterate.

    resume: go on from the file, if there is one. Without it, a file that exists is an error: what
    it holds may be all that is left of a long run.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> first = bridle.Checkpoint("run.ckpt", every=1e-6)
    >>> half = bridle.solve(problem, "pegasos", stop=bridle.Epochs(2), checkpoint=first)
    >>> again = bridle.Checkpoint("run.ckpt", resume=True)
    >>> bridle.solve(problem, "pegasos", stop=bridle.Epochs(5), checkpoint=again).epochs
    5.0
    """

    path: str | os.PathLike[str]
    every: float = 60.0
    resume: bool = False

    def __post_init__(self) -> None:
        if not self.every > 0:
            raise ValueError(f"every must be a positive number of seconds, got {self.every}")

    def numbered(self, k: int) -> Checkpoint:
        """The same for one of several problems: its number is added to the name."""
        path = Path(self.path)
        return Checkpoint(path.with_name(f"{path.name}.{k}"), self.every, self.resume)

    def opened(self, problem: Problem, solver: str) -> Saver:
        """Ready to save a run; CheckpointError if the file belongs to another one."""
        identity = _identity(problem)
        path = Path(self.path)
        if not path.exists():
            return Saver(self, identity, solver, None)
        if not self.resume:
            raise CheckpointError(f"{path}: exists already; resume from it, or remove it")
        return Saver(self, identity, solver, _matching(path, identity, problem))


class Saver:
    """Saves the iterates of one run. start: what the checkpoint had, or None."""

    def __init__(
        self, settings: Checkpoint, identity: dict[str, Any], solver: str, start: SavedPoint | None
    ) -> None:
        self.settings, self.identity, self.solver = settings, identity, solver
        if start is not None and start.solver != solver:  # only the point is of use
            start = replace(start, step=0, epoch=0.0)
        self.start = start
        self._steps, self._epochs = (0, 0.0) if start is None else (start.step, start.epoch)
        self._saved_at = time.monotonic()
        self._saved_step = -1

    def note(self, iterate: Iterate) -> None:
        """Save, if it is time."""
        if time.monotonic() - self._saved_at >= self.settings.every:
            self.save(iterate)

    def save(self, iterate: Iterate) -> None:
        """Save, unless this iterate has been saved."""
        if iterate.step == self._saved_step:
            return
        point = SavedPoint(
            identity=self.identity, solver=self.solver, step=self._steps + iterate.step,
            epoch=self._epochs + iterate.epoch, w=iterate.w, b=float(iterate.b),
            alpha=None if iterate.alpha is None else np.asarray(iterate.alpha),
        )  # fmt: skip
        write_container(self.settings.path, Content(point.kind, *point.parts()))
        self._saved_step = iterate.step
        # The time that saving takes is not part of the interval, or slow disks would do only that.
        self._saved_at = time.monotonic()


def _identity(problem: Problem) -> dict[str, Any]:
    identity = problem.identity()
    if identity is None:
        raise ValueError(
            f"checkpoints are for linear problems in this process, not for this "
            f"{type(problem).__name__}"
        )
    return identity


def _check_size(point: SavedPoint) -> None:
    """No run comes to where squares overflow, and none comes back from there."""
    alpha = 0.0 if point.alpha is None else point.alpha
    with np.errstate(over="ignore"):
        squares = [np.sum(np.square(v)) for v in (point.w, point.b, alpha, point.epoch)]
    if not np.isfinite(squares).all() or point.step < 0 or point.epoch < 0:
        raise ValueError("numbers that no run comes to")


def _matching(path: Path, identity: Mapping[str, Any], problem: Problem) -> SavedPoint:
    content = read_container(path)
    if content.kind != SavedPoint.kind:
        raise CheckpointError(f"{path}: is a model, not a checkpoint")
    with malformed_as_error(str(path)):
        found = SavedPoint.from_parts(content.fields, content.arrays)
    for name, value in identity.items():
        before = found.identity.get(name)
        if before != value:
            raise CheckpointError(
                f"{path}: is the checkpoint of another problem: its {name} was {before}, "
                f"now it is {value}"
            )
    try:
        check_vector(found.w, problem.n_features, "w")
        if found.alpha is not None:
            check_vector(found.alpha, problem.n_rows, "alpha")
        _check_size(found)
    except ValueError as error:
        raise CheckpointError(f"{path}: malformed checkpoint: {error}") from error
    return found
