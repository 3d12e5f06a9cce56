"""What the readers of text models share: numbered lines, and errors that say which."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import NoReturn

from bridle.errors import ModelError
from bridle.files.atomic import StrPath
from bridle.objective.certificate import UNCERTIFIED

__all__ = ["UNCERTIFIED", "Lines"]


class Lines:
    """The lines of a file, one after the other; errors name the line that was read last."""

    def __init__(self, path: StrPath) -> None:
        self.name = os.fsdecode(path)
        self.number = 0
        self._text, self._at = Path(path).read_bytes(), 0

    @property
    def rest(self) -> bytes:
        """What has not been read yet."""
        return self._text[self._at :]

    def next(self, expected: str) -> str:
        """The next line without its end."""
        self.number += 1
        if self._at >= len(self._text):
            self.fail(expected, "the end of the file")
        end = self._text.find(b"\n", self._at)
        end = len(self._text) if end < 0 else end
        raw, self._at = self._text[self._at : end], end + 1
        try:
            return raw.decode("ascii").rstrip("\r")
        except UnicodeDecodeError:
            self.fail(expected, "bytes that are no text")

    def number_in(self, text: str, expected: str) -> float:
        """A finite number."""
        try:
            value = float(text)
        except ValueError:
            self.fail(expected, repr(text[:40]))
        if not math.isfinite(value) or "_" in text:
            self.fail(expected, repr(text[:40]))
        return value

    def numbers_in(self, words: list[str]) -> list[float]:
        """Finite numbers, quickly: there may be millions of them."""
        try:
            values = list(map(float, words))
            if all(map(math.isfinite, values)) and "_" not in "".join(words):
                return values
        except ValueError:
            pass
        return [self.number_in(word, "a finite number") for word in words]

    def count_in(self, text: str, expected: str, least: int = 0) -> int:
        """A count that fits 32 bits."""
        value = self.number_in(text, expected)
        if not value.is_integer() or not least <= value < 2**31:
            self.fail(expected, repr(text[:40]))
        return int(value)

    def fail(self, expected: str, found: str) -> NoReturn:
        """One line that says where and why."""
        raise ModelError(f"{self.name}:{self.number}: expected {expected}, found {found}")
