"""LIBLINEAR's dialect: `train -s 3 -c 1 -B 1 -e 0.01 -v 5 -w1 2` as bridle's own options.

A pure translation of the command line, before it is read. Any of LIBLINEAR's one-letter options but
`-c` and `-q`, which mean the same, makes the line LIBLINEAR's: then its defaults hold, `-s 1` and
`-B -1`.

    -s 0, 7    --loss logistic               -v n     --folds n
    -s 1, 2    --loss squared_hinge          -C       --search-c
    -s 3       --loss hinge                  -wi x    --weight i=x
    -s 4       --multiclass crammer_singer   -q       --quiet
    -s 5, 6    --loss squared_hinge, logistic, each with --penalty l1
    -s 11, 12  --loss squared_epsilon_insensitive:epsilon=p, where -p is 0.1 unless given
    -s 13      --loss epsilon_insensitive:epsilon=p
    -s 21      --loss one_class:nu=n, where -n is 0.5 unless given
    -B b       --bias regularised --bias-scale b; none for b <= 0
    -R         --bias free                   -W file  the same
    -b 1       --probability platt; with -s 0, 6 and 7 nothing, whose probabilities are their own
    -e eps     --gap eps/10: LIBLINEAR bounds gradients, which leave gaps about that much smaller
"""

from __future__ import annotations

from dataclasses import dataclass

LOSSES = {
    0: "logistic", 1: "squared_hinge", 2: "squared_hinge", 3: "hinge", 4: "hinge",
    5: "squared_hinge", 6: "logistic", 7: "logistic",
    11: "squared_epsilon_insensitive", 12: "squared_epsilon_insensitive",
    13: "epsilon_insensitive", 21: "one_class",
}  # fmt: skip
ONE_CLASS = 21
OF_TARGETS, WITH_L1 = frozenset({11, 12, 13}), frozenset({5, 6})
WITH_VALUE, WITHOUT = frozenset("sBevpnwb"), frozenset("CRq")


class DialectError(ValueError):
    """Something that LIBLINEAR has and bridle has not, or a value that makes no sense."""


@dataclass(frozen=True)
class Translation:
    """The command line to read, and the native options that LIBLINEAR's stand for, if any."""

    arguments: list[str]
    native: list[str]


def translate(arguments: list[str]) -> Translation:
    """As it is, unless it has an option of LIBLINEAR's."""
    given: dict[str, str] = {}
    weights: list[str] = []
    rest: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        letter = word[1:2] if len(word) > 1 and word[0] == "-" else ""
        if word == "--":
            rest += [word, *left]
            break
        glued = word[2:] if letter != "w" and word[2:3] in tuple("0123456789.+-") else ""
        if letter == "w" or (letter in WITH_VALUE and len(word) == 2 + len(glued)):
            if not glued and not left:
                raise DialectError(f"{word}: expected a value after it")
            value = glued or left.pop(0)
            if letter == "w":
                _number(word, value)
                weights += ["--weight", f"{_label(word)}={value}"]
            else:
                given[letter] = value
        elif letter in WITHOUT and len(word) == 2:
            given[letter] = ""
        else:
            rest.append(word)
    if not given and not weights:
        return Translation(list(arguments), [])
    if set(given) == {"q"} and not weights:
        return Translation(["--quiet", *rest], [])
    number = _number_of(given.get("s", "1"))
    native = [*_solver(number, given), *_bias(number, given), *weights, *_others(number, given)]
    return Translation([*native, *rest], native)


def _number_of(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise DialectError(f"-s: expected the number of a solver, found {text!r:.20}") from None
    if number not in LOSSES:
        known = ", ".join(map(str, LOSSES))
        raise DialectError(f"-s {number} is no solver of LIBLINEAR's: it has -s {known}")
    return number


def _solver(number: int, given: dict[str, str]) -> list[str]:
    loss = LOSSES[number]
    if number == ONE_CLASS:
        loss += f":nu={_number('-n', given.get('n', '0.5'))!r}"
    elif "n" in given:
        raise DialectError("-n is for the one-class machine, -s 21")
    if number in OF_TARGETS:
        loss += f":epsilon={_number('-p', given.get('p', '0.1'))!r}"
    elif "p" in given:
        raise DialectError("-p is for regression, -s 11, 12 and 13")
    jointly = ["--multiclass", "crammer_singer"] if number == 4 else []
    return ["--loss", loss, *(["--penalty", "l1"] if number in WITH_L1 else []), *jointly]


def _bias(number: int, given: dict[str, str]) -> list[str]:
    if number == ONE_CLASS:
        if "B" in given or "R" in given:
            raise DialectError("-s 21 has an offset of its own: leave out -B and -R")
        return []
    scale = _number("-B", given.get("B", "-1"))
    if "R" in given:
        if scale <= 0:
            raise DialectError("-R leaves the bias unpenalised: it needs one, -B 1")
        return ["--bias", "free"]
    if scale <= 0:
        return ["--bias", "none"]
    return ["--bias", "regularised", *(["--bias-scale", given["B"]] if scale != 1 else [])]


def _others(number: int, given: dict[str, str]) -> list[str]:
    native = []
    if given.get("b", "0") not in ("0", "1"):
        raise DialectError(f"-b: expected 0 or 1, found {given['b']!r:.20}")
    if given.get("b") == "1" and LOSSES[number] != "logistic":
        native += ["--probability", "platt"]
    if "e" in given:
        native += ["--gap", f"{_number('-e', given['e']) / 10:g}"]
    if "v" in given:
        native += ["--folds", given["v"]]
    return native + [name for key, name in (("C", "--search-c"), ("q", "--quiet")) if key in given]


def _label(word: str) -> str:
    try:
        return str(int(word[2:]))
    except ValueError:
        raise DialectError(f"{word}: expected a label after -w, as in -w1 2") from None


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DialectError(f"{option}: expected a number, found {text!r:.20}") from None
