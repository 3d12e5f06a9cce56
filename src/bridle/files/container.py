r"""The container of model files and checkpoints: a JSON header and raw arrays. Never pickle.

    bytes     what
    8         magic: 0x89 "bridle" 0x0A
    4         format number, little-endian as everything here; this code writes and reads 1
    4         zero
    8         size of the header in bytes
    8         size of the file in bytes
    32        blake2b-256 of everything after these 64 bytes
    header    JSON, UTF-8: kind, fields, and the arrays' names, dtypes, shapes, offsets
    arrays    each at a multiple of 64 bytes from the start of the file; offsets in the header
              count from the first one's place

A file is written under a temporary name beside its own, flushed to the disk and renamed: whoever
reads sees the old content or the new one, never half of one. Whatever is wrong with a file ends in
ModelError, one line that says what; sizes, shapes and offsets are checked before they are used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle import __version__
from bridle.errors import ModelError
from bridle.files.atomic import StrPath, replacing
from bridle.files.mapped import release_pages
from numpy.typing import NDArray

MAGIC = b"\x89bridle\n"
FORMAT = 1
ALIGNMENT = 64
MOST_HEADER_BYTES = 1 << 28
DTYPES = ("<f4", "<f8", "<i4", "<i8", "|u1")  # of arrays
_CHUNK = 1 << 24  # bytes written at a time
_PREAMBLE = struct.Struct("<8sIIQQ32s")
assert _PREAMBLE.size == ALIGNMENT


@dataclass(frozen=True)
class Content:
    """What a file holds: the kind of thing, plain JSON fields, and arrays."""

    kind: str
    fields: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    writer: str = __version__  # the version of bridle that wrote it


def write_container(path: StrPath, content: Content) -> None:
    """Whole or not at all."""
    blocks = {name: _storable(name, array) for name, array in content.arrays.items()}
    header = _header(content.kind, content.fields, blocks)
    sizes = [len(header), *(block.nbytes for block in blocks.values())]
    gaps = [-size % ALIGNMENT for size in sizes]
    pieces: list[Any] = [header, bytes(gaps[0])]
    for block, gap in zip(blocks.values(), gaps[1:], strict=True):
        pieces += [block.reshape(-1).view(np.uint8), bytes(gap)]
    digest = hashlib.blake2b(digest_size=32)
    for chunk in _chunks(pieces):
        digest.update(chunk)
    size = _PREAMBLE.size + sum(sizes) + sum(gaps)
    preamble = _PREAMBLE.pack(MAGIC, FORMAT, 0, len(header), size, digest.digest())
    with replacing(path) as file:
        for chunk in _chunks([preamble, *pieces]):
            file.write(chunk)


def read_container(path: StrPath) -> Content:
    """ModelError says what is wrong with a file that is none."""
    name = os.fsdecode(path)
    with open(path, "rb") as file:
        preamble = file.read(_PREAMBLE.size)
        header_size, size, checksum = _check_preamble(preamble, name)
        body = bytearray(file.read())
    if len(preamble) + len(body) != size:
        raise ModelError(
            f"{name}: the model is damaged: {len(preamble) + len(body)} bytes of {size}"
        )
    if hashlib.blake2b(body, digest_size=32).digest() != checksum:
        raise ModelError(f"{name}: the model is damaged: its checksum does not match")
    if header_size > min(MOST_HEADER_BYTES, len(body)):
        raise ModelError(f"{name}: malformed model: a header of {header_size} bytes")
    with malformed_as_error(name):
        header = json.loads(body[:header_size].decode("utf-8"), parse_constant=_no_number)
        arrays = {
            entry["name"]: _array(entry, body, header_size) for entry in list(header["arrays"])
        }
        writer = f"{header.get('bridle')!s:.20}"
        return Content(string(header["kind"]), header["fields"], arrays, writer)


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number of a header")


@contextlib.contextmanager
def malformed_as_error(name: str) -> Iterator[None]:
    """What goes wrong inside, with parts that do not fit, becomes a ModelError."""
    try:
        yield
    except ModelError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError,
            RecursionError, MemoryError) as error:  # fmt: skip
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ModelError(f"{name}: malformed model: {what!s:.200}") from error


def _chunks(pieces: list[Any]) -> Iterator[Any]:
    """The pieces in chunks; what is mapped from a disk leaves memory again when it was used."""
    for piece in pieces:
        for begin in range(0, len(piece), _CHUNK):
            yield piece[begin : begin + _CHUNK]
            release_pages(piece)


def _check_preamble(preamble: bytes, name: str) -> tuple[int, int, bytes]:
    if preamble[: len(MAGIC)] != MAGIC[: len(preamble)] or not preamble:
        raise ModelError(f"{name}: not a bridle model")
    if len(preamble) < _PREAMBLE.size:
        raise ModelError(f"{name}: the model is damaged: it ends after {len(preamble)} bytes")
    _, number, zero, header_size, size, checksum = _PREAMBLE.unpack(preamble)
    if number > FORMAT:
        raise ModelError(
            f"{name}: model format {number} is newer than this version of bridle ({__version__}) "
            f"reads, which is up to {FORMAT}; upgrade bridle"
        )
    if number < 1 or zero != 0:
        raise ModelError(f"{name}: malformed model: format {number}")
    return header_size, size, checksum


def _header(kind: str, fields: dict[str, Any], blocks: dict[str, NDArray[Any]]) -> bytes:
    """The header; offsets count from its padded end, so that they do not depend on its size."""
    entries, offset = [], 0
    for name, block in blocks.items():
        entries.append(
            {"name": name, "dtype": block.dtype.str, "shape": block.shape, "offset": offset}
        )
        offset += block.nbytes + -block.nbytes % ALIGNMENT
    header = {"kind": kind, "bridle": __version__, "fields": fields, "arrays": entries}
    text = json.dumps(header, allow_nan=False, ensure_ascii=False).encode()
    if len(text) > MOST_HEADER_BYTES:
        raise ValueError(f"the model's header would have {len(text)} bytes: too many")
    return text


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    if little.dtype.str not in DTYPES:
        raise TypeError(f"a model file cannot hold {name}, an array of {array.dtype}")
    return little


def _array(entry: Mapping[str, Any], body: bytearray, header_size: int) -> NDArray[Any]:
    """A view of the body, once dtype, shape and offset are known to lie within it."""
    name, dtype, shape, offset = (entry[key] for key in ("name", "dtype", "shape", "offset"))
    if dtype not in DTYPES or not isinstance(name, str):
        raise ValueError(f"array {name!r:.40} of dtype {dtype!r:.40}")
    if len(shape) > 4:
        raise ValueError(f"array {name!r:.40} of {len(shape)} dimensions")
    size = math.prod(count(n) for n in shape)
    begin = header_size + -header_size % ALIGNMENT + count(offset)
    if offset % ALIGNMENT or begin + size * np.dtype(dtype).itemsize > len(body):
        raise ValueError(f"array {name!r:.40} does not lie within the file")
    return np.frombuffer(body, dtype, size, begin).reshape(shape)


def count(value: Any) -> int:
    """A number of things, from a header; ValueError if it is none."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
        raise ValueError(f"expected a count, found {value!r:.40}")
    return value


def string(value: Any) -> str:
    """A string, from a header; ValueError if it is none."""
    if not isinstance(value, str):
        raise ValueError(f"expected a string, found {value!r:.40}")
    return value


def json_number(value: float) -> float | str:
    """JSON has no infinity: it becomes a word that float() understands."""
    return float(value) if math.isfinite(value) else str(float(value))
