"""Changes to bytes, text, JSON and containers, all from one source of random numbers."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import struct
from typing import Any

NUMBERS = [0, 1, -1, 2, 7, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53,
           2**62, 2**63 - 1, -(2**31), -(2**63)]  # fmt: skip
WORDS = [b"nan", b"inf", b"-inf", b"1e999", b"1e-999", b"-0", b"0", b"-1", b"2147483647",
         b"2147483648", b"99999999999999999999", b"1e308", b"4.9e-324", b":", b"::", b"qid:1",
         b"qid:-1", b"#", b"\n", b"\r\n", b"\t", b" ", b",", b'"', b"(", b")", b"\x00", b"\xff",
         b"\xc3\xa9", b"%x[0,0]", b"%x[-9999999,99]", b"U", b"B", b"1:1", b"0:1", b"+"]  # fmt: skip
PREAMBLE = struct.Struct("<8sIIQQ32s")


def mutated(rng: random.Random, data: bytes) -> bytes:
    """A few changes, most often one or two."""
    for _ in range(rng.choice([1, 1, 1, 2, 2, 4, 16])):
        data = rng.choice(CHANGES)(rng, data)
    return data


def _place(rng: random.Random, data: bytes, length: int = 0) -> int:
    """Beginnings and ends hold what the rest is read by."""
    most = max(0, len(data) - length)
    near = rng.choice([16, 256, most])
    return rng.choice([rng.randint(0, min(near, most)), most - rng.randint(0, min(near, most))])


def _flip(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = _place(rng, data, 1)
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _byte(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data, 1)
    return (
        data[:at] + bytes([rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])]) + data[at + 1 :]
    )


def _number(rng: random.Random, data: bytes) -> bytes:
    size = rng.choice([1, 2, 4, 8])
    at = _place(rng, data, size)
    value = (rng.choice(NUMBERS) + rng.choice([-1, 0, 0, 1])) % 256**size
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def _word(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    return data[:at] + rng.choice(WORDS) + data[at + rng.choice([0, 0, 1, 3]) :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    return data[:at] + data[at + rng.choice([1, 2, 8, 64, len(data)]) :]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    piece = data[at : at + rng.choice([1, 8, 64, 512])]
    to = _place(rng, data)
    return data[:to] + piece * rng.choice([1, 1, 2, 30]) + data[to:]


def _swap_lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


CHANGES = (_flip, _byte, _number, _word, _word, _cut, _repeat, _swap_lines)


def mutated_container(rng: random.Random, data: bytes) -> bytes:
    """A model file that was changed by somebody who knows how to make its checksum right."""
    if rng.random() < 0.1:
        return mutated(rng, data)
    size = PREAMBLE.unpack_from(data)[3]
    body = data[PREAMBLE.size :]
    header, blocks = body[:size], body[size + -size % 64 :]
    if rng.random() < 0.7:
        tree = json.loads(header)
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            tree = mutated_json(rng, tree)
        header = json.dumps(tree).encode()
    elif rng.random() < 0.2:
        header = mutated(rng, header)
    else:
        blocks = mutated(rng, blocks)
    return packed(header, blocks)


def packed(header: bytes, blocks: bytes) -> bytes:
    """A container of this content, its sizes and its checksum right."""
    body = header + bytes(-len(header) % 64) + blocks
    digest = hashlib.blake2b(body, digest_size=32).digest()
    size = PREAMBLE.size + len(body)
    return PREAMBLE.pack(b"\x89bridle\n", 1, 0, len(header), size, digest) + body


def mutated_json(rng: random.Random, tree: Any) -> Any:
    """One thing in it is another, gone, doubled, or in another place."""
    tree = copy.deepcopy(tree)
    places = list(_places(tree))
    if not places:
        return _leaf(rng, tree)
    holder, key = rng.choice(places)
    what = rng.randrange(8)
    if what == 0:
        del holder[key]
    elif what == 1:
        other, place = rng.choice(places)
        holder[key] = copy.deepcopy(other[place])
    elif what == 2 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        holder[key] = _leaf(rng, holder[key])
    return tree


def _places(tree: Any) -> Any:
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _leaf(rng: random.Random, old: Any) -> Any:
    if isinstance(old, int | float) and not isinstance(old, bool) and rng.random() < 0.6:
        return rng.choice([old + 1, old - 1, -old, old * 2, rng.choice(NUMBERS), float(old), 0.5])
    if isinstance(old, list) and rng.random() < 0.5:
        return old[: rng.randint(0, len(old))] * rng.choice([1, 1, 2])
    return rng.choice([
        None, True, False, 0, 1, -1, 2**40, 2**70, 1e308, 0.5, "nan", "inf", "-inf", "", "x",
        "linear", "rbf", "hinge", "<f8", "<i4", [], [0], [[]], {}, {"a": 1}, rng.choice(NUMBERS),
    ])  # fmt: skip
