"""`bridle train -`: learn online from svmlight lines on standard input."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

import click
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    InputError,
    check_writable,
    peak_rss_mb,
    percent,
    print_json,
    reported,
)

NAME = "standard input"


def train_stream(
    target: Path,
    lam: float,
    *,
    rate: Any,
    loss: str,
    bias: str,
    classes: str | None,
    block: int,
    quiet: bool,
    as_json: bool,
) -> int:
    """Learn until the end of input or Ctrl-C, write the model, and return the exit code.

    A bad line ends it with an error, after what was learned before it has been written.
    """
    clock = Clock()
    if bias == "free":
        raise click.UsageError("a stream is learned with a regularised bias, or none")
    check_writable(target)
    import numpy as np
    from bridle.fitting.online import OnlineSVM
    from bridle.models.storage import save_model
    from bridle.solving.interruption import deferred_interrupt

    learner, zero_based, ended, noted = None, False, False, 0
    bad: InputError | ValueError | None = None
    with reported():
        blocks = _blocks(sys.stdin.buffer, block)
        while True:
            try:
                X, y, zero_based = next(blocks)
            except StopIteration:
                break
            except KeyboardInterrupt:
                ended = True
                break
            except InputError as error:
                bad = error
                break
            with deferred_interrupt() as interrupted:
                if learner is None:
                    seen = np.unique(y) if classes is None else _labels(classes)
                    if len(seen) < 2:
                        raise InputError(
                            f"{NAME}: the first {len(y)} rows have a single label: name all labels "
                            "with --classes, or read more rows at a time with --block"
                        )
                    learner = OnlineSVM(
                        seen, lam, rate=rate, loss=loss, fit_intercept=bias != "none"
                    )
                try:
                    learner.learn(X, y)
                except ValueError as error:  # labels that are none of the classes
                    bad = error
                ended = bad is not None or interrupted()
            if ended:
                break
            if learner.n_rows >= 2 * noted and not quiet:
                _note(learner)
                noted = learner.n_rows
        if bad is not None and (learner is None or learner.n_rows == 0):
            raise bad
        if learner is None:
            raise InputError(f"{NAME}: no rows to learn from")
        save_model(target, replace(learner.to_model(), zero_based=zero_based))
        if bad is not None:
            kept = f"{target} has what was learned from the first {learner.n_rows:,} rows"
            raise InputError(f"{bad}; {kept}")
    if as_json:
        print_json({
            "solver": "online", "lam": lam, "rate": rate, "rows": learner.n_rows,
            "features": learner.n_features, "progressive_error": learner.progressive_error,
            "status": "interrupted" if ended else "end", "model": str(target),
            "seconds": clock.report(), "peak_rss_mb": peak_rss_mb(),
        })  # fmt: skip
    elif not quiet:
        if noted < learner.n_rows:
            _note(learner)
        click.echo(f"model written to {target}")
    return NOT_REACHED if ended else REACHED


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
