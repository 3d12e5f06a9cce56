"""Label sequences in text files: CoNLL columns with a feature template, and SVM-hmm's format.

Columns: one token a line, fields separated by blanks, the label last, an empty line after each
sequence. A template line names a feature by fields of tokens around the present one, as in CRF++:

    U00:%x[-1,0]          the first field of the token before
    U01:%x[0,0]/%x[0,1]   the first and the second field of this token together

Beyond the ends of a sequence a field reads _B-1, _B-2, ..., _B+1, ...; lines that start with # or B
are comments and CRF++'s transitions, which a chain has anyway.

SVM-hmm: `TAG qid:N INDEX:VALUE ...`, one token a line, sequences told apart by their qid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bridle.files.packed import Source, name_of, text_of

Tokens = list[list[str]]  # the fields of each token of a sequence

FIELD = re.compile(r"%x\[(-?\d+),(\d+)\]")


class SequenceFileError(ValueError):
    """What is wrong, with the file and the line."""


def _lines(source: Source) -> Iterable[str]:
    try:
        yield from text_of(source)
    except UnicodeDecodeError as error:
        raise SequenceFileError(f"{name_of(source)}: not a text in UTF-8: {error}") from error


def read_columns(source: Source) -> list[Tokens]:
    """The fields of every token of every sequence; all lines have the same number of them."""
    sequences: list[Tokens] = []
    current: Tokens = []
    width = 0
    for number, line in enumerate(_lines(source), 1):
        fields = line.split()
        if not fields:
            if current:
                sequences.append(current)
                current = []
            continue
        width = width or len(fields)
        if len(fields) != width:
            raise SequenceFileError(
                f"{name_of(source)}, line {number}: {len(fields)} columns, "
                f"where the lines before have {width}"
            )
        current.append(fields)
    if current:
        sequences.append(current)
    if not sequences:
        raise SequenceFileError(f"{name_of(source)}: no tokens")
    return sequences


def split_labels(sequences: list[Tokens]) -> tuple[list[Tokens], list[list[str]]]:
    """The fields without the last one, and the last one."""
    return (
        [[fields[:-1] for fields in tokens] for tokens in sequences],
        [[fields[-1] for fields in tokens] for tokens in sequences],
    )


def read_svmhmm(source: Source) -> tuple[list[list[dict[str, float]]], list[list[str]]]:
    """Features and labels of every sequence."""
    X: list[list[dict[str, float]]] = []
    Y: list[list[str]] = []
    seen: set[str] = set()
    last = None
    for number, line in enumerate(_lines(source), 1):
        fields = line.split("#", 1)[0].split()
        if not fields:
            continue
        where = f"{name_of(source)}, line {number}"
        if len(fields) < 2 or not fields[1].startswith("qid:"):
            raise SequenceFileError(f"{where}: expected TAG qid:N INDEX:VALUE ...")
        if fields[1] != last:
            last = fields[1]
            if last in seen:
                raise SequenceFileError(f"{where}: {last} was already used by a sequence before")
            seen.add(last)
            X.append([])
            Y.append([])
        token = {}
        for entry in fields[2:]:
            name, colon, value = entry.partition(":")
            try:
                token[name] = float(value)
            except ValueError:
                colon = ""
            if not colon:
                raise SequenceFileError(f"{where}: {entry!r:.40} is not INDEX:VALUE")
        X[-1].append(token)
        Y[-1].append(fields[0])
    if not X:
        raise SequenceFileError(f"{name_of(source)}: no tokens")
    return X, Y


@dataclass(frozen=True)
class Template:
    """Features of a token from the fields around it."""

    lines: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.lines:
            raise ValueError("a template needs at least one feature")
        for line in self.lines:
            if not FIELD.search(line) and "%x" in line:
                raise ValueError(f"template line {line!r}: expected %x[row,column]")

    @property
    def n_columns(self) -> int:
        """The number of fields that a token must have."""
        columns = [int(column) for line in self.lines for _, column in FIELD.findall(line)]
        return 1 + max(columns, default=0)

    def features(self, tokens: Tokens) -> list[list[str]]:
        """The names of the features of every token of a sequence."""
        n = len(tokens)
        if n and len(tokens[0]) < self.n_columns:
            raise ValueError(
                f"the template needs {self.n_columns} columns beside the label, "
                f"the data has {len(tokens[0])}"
            )
        columns = list(zip(*tokens, strict=True))
        parsed = [_parse(line) for line in self.lines]
        out = []
        for t in range(n):
            names = []
            for pieces, fields in parsed:
                text = pieces[0]
                for (row, column), piece in zip(fields, pieces[1:], strict=True):
                    text += _at(columns[column], t + row, n) + piece
                names.append(text)
            out.append(names)
        return out


def _at(column: Sequence[str], t: int, n: int) -> str:
    if t < 0:
        return f"_B{t}"
    return column[t] if t < n else f"_B+{t - n + 1}"


def _parse(line: str) -> tuple[list[str], list[tuple[int, int]]]:
    parts = FIELD.split(line)
    fields = [(int(a), int(b)) for a, b in zip(parts[1::3], parts[2::3], strict=True)]
    return parts[0::3], fields


def read_template(source: Source) -> Template:
    """A template file."""
    lines = (line.strip() for line in _lines(source))
    try:
        return Template(tuple(line for line in lines if line and line[0] not in "#B"))
    except SequenceFileError:
        raise
    except ValueError as error:
        raise SequenceFileError(f"{name_of(source)}: {error}") from error


def window_template(n_columns: int) -> Template:
    """The usual window: each field of two tokens to either side, words and tags in pairs, tags in
    triples, where the last field before the label is taken for the tag.
    """
    lines = []
    for column in range(n_columns):
        lines += [f"{column}[{d}]:%x[{d},{column}]" for d in range(-2, 3)]
    pairs = [(0, -1), (0, 0)]
    if n_columns > 1:
        pairs += [(n_columns - 1, d) for d in range(-2, 2)]
    for column, d in pairs:
        lines.append(f"{column}[{d}]+:%x[{d},{column}]/%x[{d + 1},{column}]")
    if n_columns > 1:
        c = n_columns - 1
        for d in range(-2, 1):
            lines.append(f"{c}[{d}]++:%x[{d},{c}]/%x[{d + 1},{c}]/%x[{d + 2},{c}]")
    return Template(tuple(lines))
