"""`bridle train -`: learn online from svmlight lines on standard input."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from bridle.cli.options import TrainOptions
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    InputError,
    check_writable,
    keep_what_is_found,
    peak_rss_mb,
    percent,
    print_json,
    reported,
)

if TYPE_CHECKING:
    from bridle.fitting.online import OnlineSVM

NAME = "standard input"
LAM = 1e-4  # unless it is said


def train_stream(options: TrainOptions, target: Path) -> int:
    """Learn until the end of input, Ctrl-C or SIGTERM, write the model, and return the exit code.

    A bad line ends it with an error, after what was learned before it has been written.
    """
    clock = Clock()
    if options.intercept == "free":
        raise click.UsageError("a stream is learned with a regularised bias, or none")
    check_writable(target)
    from bridle.models.storage import save_model

    course = _Course(options)
    keep_what_is_found()
    with reported():
        course.run(_blocks(sys.stdin.buffer, options.block))
        learner = course.learner
        if learner is None or learner.n_rows == 0:
            raise course.bad or InputError(f"{NAME}: no rows to learn from")
        save_model(target, replace(learner.to_model(), zero_based=course.zero_based))
        if course.bad is not None:
            kept = f"{target} has what was learned from the first {learner.n_rows:,} rows"
            raise InputError(f"{course.bad}; {kept}")
    if options.as_json:
        print_json({
            "solver": "online", "lam": learner.lam, "rate": options.rate, "rows": learner.n_rows,
            "features": learner.n_features, "progressive_error": learner.progressive_error,
            "status": "interrupted" if course.interrupted else "end", "model": str(target),
            "seconds": clock.report(), "peak_rss_mb": peak_rss_mb(),
        })  # fmt: skip
    elif not options.quiet:
        if course.noted < learner.n_rows:
            _note(learner)
        click.echo(f"model written to {target}")
    return NOT_REACHED if course.interrupted else REACHED


@dataclass
class _Course:
    """What became of a stream so far: the learner, and what ended it before its end."""

    options: TrainOptions
    learner: OnlineSVM | None = None
    zero_based: bool = False
    interrupted: bool = False
    bad: Exception | None = None
    noted: int = 0  # rows, when last something was said

    def run(self, blocks: Iterator[tuple[Any, Any, bool]]) -> None:
        """Learn from all blocks, until one is bad or a signal comes."""
        from bridle.solving.interruption import (
            Terminated,
            deferred_interrupt,
            prompt_termination,
        )

        while self.bad is None and not self.interrupted:
            try:
                with prompt_termination():
                    X, y, self.zero_based = next(blocks)
            except StopIteration:
                return
            except (KeyboardInterrupt, Terminated):
                self.interrupted = True
                return
            except InputError as error:
                self.bad = error
                return
            with deferred_interrupt() as interrupted:
                self.learn(X, y)
                self.interrupted = interrupted()

    def learn(self, X: Any, y: Any) -> None:
        """From one block."""
        if self.learner is None:
            self.learner = self.begin(y)
        try:
            self.learner.learn(X, y)
        except ValueError as error:  # labels that are none of the classes
            self.bad = error
            return
        if self.learner.n_rows >= 2 * self.noted and not self.options.quiet:
            _note(self.learner)
            self.noted = self.learner.n_rows

    def begin(self, y: Any) -> OnlineSVM:
        """A learner of the labels that are named, or of those in the first block."""
        import numpy as np
        from bridle.fitting.online import OnlineSVM

        options = self.options
        seen = np.unique(y) if options.classes is None else _labels(options.classes)
        if len(seen) < 2:
            raise InputError(
                f"{NAME}: the first {len(y)} rows have a single label: name all labels with "
                "--classes, or read more rows at a time with --block"
            )
        return OnlineSVM(
            seen, LAM if options.lam is None else options.lam, rate=options.rate,
            loss=options.loss, fit_intercept=options.intercept != "none",
        )  # fmt: skip


def _note(learner: Any) -> None:
    error = learner.progressive_error
    told = "" if error != error else (  # noqa: PLR0124  (NaN before the second block)
        f": progressive error {percent(error)}, of the newest block {percent(learner.last_error)}"
    )  # fmt: skip
    click.echo(f"{learner.n_rows:,} rows, {learner.n_features:,} features{told}", err=True)


def _labels(text: str) -> Any:
    import numpy as np

    try:
        return np.array([float(word) for word in text.split(",")])
    except ValueError:
        raise InputError(f"--classes {text}: expected numbers separated by commas") from None


def _blocks(stream: IO[bytes], size: int) -> Iterator[tuple[Any, Any, bool]]:
    """X, y and whether features count from zero, as the first block says."""
    from bridle.data.svmlight import SvmlightError, read_svmlight_block

    zero_based: Any = "auto"
    before = 0
    lines: list[bytes] = []
    while lines := list(islice(stream, size)):
        text = b"".join(lines)
        if any(line.partition(b"#")[0].strip() for line in lines):
            try:
                X, y, zero_based = read_svmlight_block(text, NAME, zero_based=zero_based)
            except SvmlightError as error:
                raise InputError(_shifted(str(error), before)) from error
            yield X, y, zero_based
        before += len(lines)


def _shifted(message: str, lines: int) -> str:
    """The message with its line counted from the first line of the stream."""
    return re.sub(
        rf"^{NAME}:(\d+):", lambda found: f"{NAME}:{int(found[1]) + lines}:", message, count=1
    )
