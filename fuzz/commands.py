"""The command line: arguments of every command as click describes them, with files good and bad."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import click
from bridle.cli import main
from bridle.cli.shared import _InputFile, _OutputFile, _OutputFileOrStdout
from click.testing import CliRunner

from fuzz.containers import OLD
from fuzz.mutations import mutated, mutated_container
from fuzz.outcome import Outcome
from fuzz.readers import COLUMNS, Readers

CODES = (0, 2, 3)
WORDS = ["", "x", "-", "--", "0", "1", "-1", "1.5", "nan", "inf", "1e400", "a=b", "1=2", "dcd",
         "hinge", "label", "é", "\x07", "a" * 300, "../x", "batch=10"]  # fmt: skip
GOOD = {
    "solver": ["auto", "dcd", "pegasos", "newton", "one-slack", "bcfw", "sgd", "smo", "qp"],
    "solvers": ["dcd", "dcd,pegasos:batch=3"], "loss": ["hinge", "squared_hinge", "map", "roc"],
    "settings": ["batch=10", "seed=1"], "class_weight": ["1=2", "-1=0.5"], "classes": ["1,-1"],
    "gamma": ["scale", "0.5"], "label_column": ["label", "1", "-1"], "peers": [""],
}  # fmt: skip
SUFFIXES = {"rows": ".arrow", "picture": ".png", "trace": ".csv", "output": ".liblinear"}
OUTPUTS = ["out", "out.csv", "out.arrow", "out.png", "out.json", "nowhere/out", "-", "."]
CLASSIFIERS = ["linear2", "linear3", "kernel2", "kernel3", "ovo", "crammer_singer", "svc"]
TABLES = [".svm", ".npz", ".csv", ".tsv", ".parquet", ".arrow", ".svm.gz"]
NUMBERS = ["0", "1", "2", "3", "-1", "0.1", "1e-3", "1e9", "1e-320", "nan", "inf", "x", "", "10"]
SLOW = ("demo", "report", "compare")  # they draw pictures
# Options that reach out of the process, and those that would only make it work for long.
LEFT_OUT = {"dask", "dask_address", "help"}
LIMITS = {
    "max_seconds": "0.02", "max_epochs": "3", "threads": "2", "rows": "100", "folds": "2",
    "hash_bits": "8", "block": "5", "max_iter": "3", "memory": "4G",
}  # fmt: skip


class Commands:
    """input: arguments, and the contents of the files that they name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        (folder / "seeds").mkdir()
        lines = (OLD / "three.svm").read_bytes().splitlines()  # three classes are grades, too
        ranked = b"".join(
            b"%s qid:%d %s\n" % (line.split()[0], k // 8, b" ".join(line.split()[1:]))
            for k, line in enumerate(lines)
        )
        self.svm = (OLD / "two.svm").read_bytes()
        self.data = [
            *Readers(folder / "seeds").seeds, (".ranked", ranked), (".svm", self.svm),
            (".svm", self.svm), (".svm", (OLD / "three.svm").read_bytes()),
        ]  # fmt: skip
        self.models = {path.stem: path.read_bytes() for path in OLD.glob("*.model")}
        (folder / "t.columns").write_bytes(COLUMNS.encode())
        told = CliRunner().invoke(main, ["tag", "train", str(folder / "t.columns")])
        assert told.exit_code == 0, told.output
        self.models["tagger"] = (folder / "t.columns.model").read_bytes()
        self.commands = list(_leaves(main, ()))

    def make(self, rng: random.Random) -> dict[str, Any]:
        """A command with required arguments most of the time, and a few options."""
        words, command = rng.choice(self.commands)
        if words[0] in SLOW and rng.random() < 0.9:
            words, command = rng.choice(self.commands)
        files: dict[str, bytes] = {}
        line = list(words)
        for parameter in command.params:
            if isinstance(parameter, click.Argument):
                if rng.random() < 0.98:
                    line.append(self._value(rng, parameter, words, files))
            elif parameter.name not in (*LEFT_OUT, *LIMITS) and rng.random() < 0.1:
                name = rng.choice([*parameter.opts, *parameter.secondary_opts])
                flag = getattr(parameter, "is_flag", False)
                line += [name] if flag else [name, self._value(rng, parameter, words, files)]
        if rng.random() < 0.02:
            line.insert(rng.randrange(len(line) + 1), rng.choice([*WORDS, "--what", "-s", "-v"]))
        line[len(words) : len(words)] = self._limits(rng, command)
        return {"line": line, "files": files, "stdin": self.svm if "-" in line else b""}

    def use(self, given: dict[str, Any]) -> Outcome:
        """Exit codes are those of the documentation, and who fails says why."""
        for name, content in given["files"].items():
            (self.folder / name).write_bytes(content)
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            told = CliRunner().invoke(main, given["line"], input=given["stdin"])
        finally:
            os.chdir(before)
            for path in self.folder.iterdir():
                if not path.is_dir():
                    path.unlink()
        if told.exception is not None and not isinstance(told.exception, SystemExit):
            raise told.exception
        assert told.exit_code in CODES, f"exit code {told.exit_code}: {told.stderr}"
        assert told.exit_code != 2 or told.stderr.strip(), "refused without a word"
        return "refused" if told.exit_code == 2 else "accepted"

    def _limits(self, rng: random.Random, command: click.Command) -> list[str]:
        line: list[str] = []
        for parameter in command.params:
            if parameter.name in LIMITS and isinstance(parameter, click.Option):
                if (
                    parameter.name in ("hash_bits", "folds", "memory", "block")
                    and rng.random() < 0.8
                ):
                    continue
                line += [parameter.opts[0], LIMITS[parameter.name]]
        return line

    def _value(
        self, rng: random.Random, parameter: Any, words: tuple[str, ...], files: dict[str, bytes]
    ) -> str:
        kind, odd = parameter.type, rng.random() < 0.15
        if isinstance(kind, _OutputFile | _OutputFileOrStdout):
            suffix = SUFFIXES.get(parameter.name, "")
            return rng.choice(OUTPUTS) if odd else f"out{suffix}"
        if isinstance(kind, _InputFile | click.Path):
            return self._file(rng, parameter.name, words, files)
        if isinstance(kind, click.Choice) and not odd:
            return str(rng.choice(list(kind.choices)))
        if isinstance(kind, click.types.StringParamType):
            return rng.choice(WORDS if odd else GOOD.get(parameter.name, WORDS))
        return rng.choice(NUMBERS if odd else ["1", "2", "3"])

    def _file(
        self, rng: random.Random, role: str, words: tuple[str, ...], files: dict[str, bytes]
    ) -> str:
        odd = rng.random()
        if odd < 0.02:
            return rng.choice(["missing", "-", ".", ""])
        if files and odd < 0.04:
            return rng.choice(sorted(files))
        ending, content = self._good(rng, role, words)
        if odd < 0.1:
            ending, content = rng.choice(self.data)
        if odd > 0.7:
            content = (mutated_container if ending == ".model" else mutated)(rng, content)
        files[f"in{len(files)}{ending}"] = content
        return f"in{len(files) - 1}{ending}"

    def _good(self, rng: random.Random, role: str, words: tuple[str, ...]) -> tuple[str, bytes]:
        """Of the kind that the command is for."""
        if role == "model":
            kinds = {"rank": ["ranking"], "tag": ["tagger"]}.get(words[0], CLASSIFIERS)
            return ".model", self.models[rng.choice(kinds)]
        wanted = {"template": [".template"], "file": [".text"]}.get(role)
        if wanted is None:
            wanted = {"rank": [".ranked"], "tag": [".columns", ".hmm"]}.get(words[0], TABLES)
        return rng.choice([(e, c) for e, c in self.data if e in wanted])


def _leaves(command: click.Command, words: tuple[str, ...]) -> Any:
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from _leaves(inner, (*words, name))
