"""Compressed files, by their first bytes whatever their names: gzip, xz, bzip2, Zstandard."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

ENDINGS = (".gz", ".xz", ".bz2", ".zst")
STANDARD_INPUT = "standard input"

Source = str | os.PathLike[str] | IO[bytes]  # a file by its name, or one that is open

# first bytes -> module with an `open`
_OPENERS = {
    rb"\x1f\x8b": "gzip", rb"\xfd7zXZ\x00": "lzma", rb"BZh[1-9]1AY": "bz2",
    rb"\x28\xb5\x2f\xfd": "compression.zstd",
}  # fmt: skip
LONGEST = 7  # of these


class PackedError(ValueError):
    """A compressed file that is damaged, or that nothing here can unpack."""


def name_of(source: Source) -> str:
    """What errors call it."""
    if isinstance(source, str | os.PathLike):
        return os.fsdecode(source).encode("utf-8", "backslashreplace").decode("utf-8")
    return STANDARD_INPUT if source is sys.stdin.buffer else str(getattr(source, "name", "<bytes>"))


@contextlib.contextmanager
def opened(source: Source) -> Iterator[IO[bytes]]:
    """A file at its beginning, which can be sought in; an open one that cannot is read whole."""
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as file:
            yield file if file.seekable() else io.BytesIO(file.read())
    else:
        yield source if source.seekable() else io.BytesIO(source.read())


def packer_of(first: bytes) -> str | None:
    """The module that unpacks what begins so; None if it is plain."""
    return next((module for magic, module in _OPENERS.items() if re.match(magic, first)), None)


def unpacking(file: IO[bytes], name: str) -> IO[bytes] | None:
    """A stream of what a compressed file holds; None if the file, now at its beginning, is plain.

    Read it within `damage_told`.
    """
    module = packer_of(file.read(LONGEST))
    file.seek(0, io.SEEK_END)  # without its buffer, which `read` joins to the rest, slowly
    file.seek(0)
    if module is None:
        return None
    stream: IO[bytes]
    try:
        stream = importlib.import_module(module).open(file)
    except ImportError:
        stream = _zstandard(file, name)
    return stream


def _zstandard(file: IO[bytes], name: str) -> IO[bytes]:
    """For Pythons before 3.14, which have it not."""
    try:
        import pyarrow
    except ImportError:
        raise PackedError(
            f"{name}: Zstandard needs Python 3.14 or pyarrow: pip install 'bridle[arrow]'"
        ) from None
    stream: Any = pyarrow.CompressedInputStream(file, "zstd")
    return stream  # type: ignore[no-any-return]


@contextlib.contextmanager
def damage_told(name: str) -> Iterator[None]:
    """Whatever unpacking raises as one error with the name."""
    import lzma
    import zlib

    try:
        yield
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise PackedError(
            f"{name}: expected a complete compressed file, found damage: {error}"
        ) from error
    except Exception as error:
        if type(error).__name__ != "ZstdError":  # of a module that only newer Pythons have
            raise
        raise PackedError(f"{name}: found damage in a compressed file: {error}") from error


def unpacked(file: IO[bytes], name: str) -> bytes | bytearray:
    """All that a file holds."""
    stream = unpacking(file, name)
    if stream is None:
        return file.read()
    text = bytearray()
    with damage_told(name), stream:
        while block := stream.read(1 << 20):
            text += block
    return text


def bytes_of(source: Source) -> bytes:
    """What a file holds, plain or compressed."""
    with opened(source) as file:
        return bytes(unpacked(file, name_of(source)))


def as_text(raw: bytes) -> IO[str]:
    """A text in UTF-8, with its line ends as they are."""
    return io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline="")


def text_of(source: Source) -> IO[str]:
    """The text of a file in UTF-8, plain or compressed, with its line ends as they are."""
    return as_text(bytes_of(source))
