"""The command line. A subcommand is one file here and one line in COMMANDS.

`bridle --help` imports no subcommand: their short helps are in the table. Subcommands import what
is heavy inside their functions.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Iterator
from typing import Any

import bridle
import click
from bridle.solving.interruption import Terminated, terminable

# name -> (module, attribute, short help)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "train": ("bridle.cli.train", "train", "Train on a data file and certify the model."),
    "predict": ("bridle.cli.predict", "predict", "Apply a model to a data file."),
    "convert": ("bridle.cli.convert", "convert", "Turn an svmlight file into rows on disk."),
    "certify": ("bridle.cli.certify", "certify", "Prove how far from optimal a model is."),
    "path": ("bridle.cli.path", "path", "Solve for every C between two ends, certified."),
    "compare": ("bridle.cli.compare", "compare", "Compare solvers on a data file."),
    "check": ("bridle.cli.check", "check", "Check gradient, rates, epochs and margins on DATA."),
    "tag": ("bridle.cli.tag", "tag", "Label sequences: train a tagger, apply it, score it."),
    "parse": ("bridle.cli.parse", "parse", "Parse sentences: train on trees, apply, score."),
    "rank": ("bridle.cli.rank", "rank", "Train, apply and evaluate rankers on files with qid."),
    "report": ("bridle.cli.report", "report", "Write a page about a data set and its model."),
    "export": ("bridle.cli.export", "export", "Write a model for LIBLINEAR, SVM-light or ONNX."),
    "import": ("bridle.cli.import_", "import_", "Read a model of LIBLINEAR or SVM-light."),
    "demo": ("bridle.cli.demo", "demo", "Compare solvers on a generated text corpus."),
}


# Shows the help; of click 8.2 and later.
NO_ARGUMENTS: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


def _number(found: re.Match[str]) -> str:
    return "a whole number" if found[1] == "integer" else "a number"


@contextlib.contextmanager
def usage_in_one_line() -> Iterator[None]:
    """What is wrong and where help is, without click's further lines."""
    from bridle.cli.shared import InputError

    try:
        yield
    except NO_ARGUMENTS:
        raise
    except click.UsageError as error:
        command = "bridle" if error.ctx is None else error.ctx.command_path
        said = error.format_message().rstrip(".")
        said = re.sub(r"a valid (integer|float)( range)?", _number, said)
        raise InputError(f"{said}; see {command} --help") from error


class LazyGroup(click.Group):
    """Imports a subcommand when it is run."""

    def make_context(self, *given: Any, **further: Any) -> click.Context:
        """Reads the options before the subcommand."""
        with usage_in_one_line():
            return super().make_context(*given, **further)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of this name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a subcommand; exit code 143 if SIGTERM ended it, whether or not it left a model."""
        from bridle.cli.shared import unwritten

        with terminable() as asked, usage_in_one_line():
            try:
                return super().invoke(ctx)
            except click.exceptions.Exit:
                if asked():
                    raise Terminated from None
                raise
            except OSError as error:  # files have been reported: it was standard output
                raise unwritten(error) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in COMMANDS])


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 the gap that was asked for was reached; 3 stopped before it, the best "
    "model so far is written; 2 bad usage, bad input, or a file that cannot be written; 143 ended "
    "by SIGTERM, train writes the best model so far.",
)
@click.version_option(bridle.__version__, prog_name="bridle", message="%(prog)s %(version)s")
def main() -> None:
    """Support vector machines at scale, with a proof of how good the answer is."""
    # NumPy's BLAS would start threads of its own beside those of --threads, for dot products too
    # short to gain from them. It reads this when it is imported, which is later.
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
