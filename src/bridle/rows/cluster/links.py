"""Links between parts: a message goes down a tree of them, and what they answer comes up summed.

The client is the root. It and every part pass a message on to at most FANOUT others and hear as
many answers, however many parts there are. A message is sent on before it is worked on.

Links are sockets of our own, since a call of a Dask actor costs a millisecond or two of each
interpreter on its way. Whoever opens one shows a token first, which came with Dask's own messages.
"""

from __future__ import annotations

import hmac
import pickle
import socket
import struct
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from bridle.rows.base import Judged, total
from bridle.rows.cluster.packed import pack, unpack, weight_of

FANOUT = 4
TOKEN = 32  # bytes
PATIENCE = 5.0  # seconds, for a link to be made

# What comes of these is summed on its way.
SUMMED = frozenset({"visit", "settle", "near", "totals", "judge", "losses", "judged_loss"})


class LinkError(Exception):
    """A link broke: who was behind it may have died."""


def below(begin: int, end: int) -> list[tuple[int, int]]:
    """The parts from begin on and before end, as at most FANOUT subtrees, each after its top."""
    cuts = np.linspace(begin, end, min(FANOUT, end - begin) + 1).astype(int).tolist()
    return list(pairwise(cuts))


def children(n_parts: int) -> dict[int, list[int]]:
    """Whom each part passes messages on to; those of the client, who is none, stand at -1."""
    found: dict[int, list[int]] = {}

    def grow(parent: int, begin: int, end: int) -> None:
        subtrees = below(begin, end) if begin < end else []
        found[parent] = [top for top, _ in subtrees]
        for top, after in subtrees:
            grow(top, top + 1, after)

    grow(-1, 0, n_parts)
    return found


def depth(n_parts: int) -> int:
    """How many links lie between the client and the part that is farthest from it."""
    return 0 if n_parts == 0 else 1 + max(depth(end - top - 1) for top, end in below(0, n_parts))


def host_of(address: str) -> str | None:
    """Where a worker listens; None if its connections are not plain TCP, and ours must not be."""
    url = urlsplit(address)
    return url.hostname if url.scheme == "tcp" else None


def joined(answers: Sequence[Any]) -> Any:
    """What several parts answer, as if they were one. Numbers are added in float64."""
    first = answers[0]
    if len(answers) == 1 or first is None:
        return first
    if isinstance(first, Judged):
        return total(answers)
    if isinstance(first, list | tuple):
        return type(first)(joined(own) for own in zip(*answers, strict=True))
    if isinstance(first, np.ndarray):
        summed = first.astype(np.float64)
        for other in answers[1:]:  # not np.sum, which makes one array of all of them first
            summed += other
        return summed.astype(first.dtype, copy=False)
    if is_dataclass(first) and not hasattr(first, "__add__"):
        names = [field.name for field in fields(first)]
        return replace(first, **{n: joined([getattr(a, n) for a in answers]) for n in names})  # type: ignore[type-var]
    return sum(answers[1:], start=first)


def is_summed(method: str, arguments: Sequence[Any]) -> bool:
    """Whether answers to this message are summed on their way."""
    return (arguments[0] if method == "several" else method) in SUMMED


@dataclass
class Reply:
    """What a subtree answers."""

    seconds: float  # of the slowest
    answers: list[Any]  # packed: the sum, or what each part answers, in order
    moved: int = 0  # bytes that the parts sent to each other
    error: Exception | None = None
    number: int = 0  # of the part that has the error


class Link:
    """A connection: messages with their arrays beside them.

    on_silence: called whenever nothing moved for `seconds`; it may raise.
    """

    def __init__(
        self, connection: socket.socket, seconds: float | None = None,
        on_silence: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        connection.settimeout(seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection, self.on_silence = connection, on_silence
        weakref.finalize(self, connection.close)

    def send(self, frame: list[Any]) -> None:
        """What `framed` made."""
        for piece in frame:
            self._through(self.connection.send, memoryview(piece))

    def receive(self) -> list[Any]:
        """A frame, as it was sent."""
        head = self.exactly(4)
        lengths = self.exactly(8 * struct.unpack("<I", head)[0])
        return [head, lengths, *(self.exactly(n) for (n,) in struct.iter_unpack("<Q", lengths))]

    def exactly(self, size: int) -> bytearray:
        """So many bytes."""
        found = bytearray(size)
        self._through(self.connection.recv_into, memoryview(found))
        return found

    def _through(self, step: Callable[[memoryview], int], rest: memoryview) -> None:
        while rest:
            try:
                n = step(rest)
            except TimeoutError as error:
                if self.on_silence is None:
                    raise LinkError("nothing moves") from error
                self.on_silence()
                continue
            except OSError as error:
                raise LinkError(str(error)) from error
            if n == 0:
                raise LinkError("closed")
            rest = rest[n:]

    def close(self) -> None:
        """Whoever waits at either end, waits no longer."""
        with suppress(OSError):  # the other end may have closed it
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def framed(message: Any) -> list[Any]:
    """A message as bytes: how many pieces, their lengths, and the pieces."""
    buffers: list[pickle.PickleBuffer] = []
    pieces: list[Any] = [pickle.dumps(message, protocol=5, buffer_callback=buffers.append)]
    pieces += [buffer.raw() for buffer in buffers]
    lengths = [memoryview(piece).nbytes for piece in pieces]
    return [struct.pack("<I", len(pieces)), struct.pack(f"<{len(pieces)}Q", *lengths), *pieces]


def unframed(frame: list[Any]) -> Any:
    """The message."""
    return pickle.loads(frame[2], buffers=frame[3:])


def connect(
    address: tuple[str, int], token: bytes, seconds: float | None = None,
    on_silence: Callable[[], None] | None = None,
) -> Link:  # fmt: skip
    """A link to who listens there."""
    try:
        link = Link(socket.create_connection(address, PATIENCE), PATIENCE)
    except OSError as error:
        raise LinkError(str(error)) from error
    link.send([token])
    link.connection.settimeout(seconds)
    link.on_silence = on_silence
    return link


class Branch:
    """Links to the tops of some subtrees."""

    def __init__(self, links: Sequence[Link] = ()) -> None:
        self.links = list(links)

    def send(self, frame: list[Any]) -> None:
        """To all of them."""
        for link in self.links:
            link.send(frame)

    def replies(self) -> list[Reply]:
        """Of all of them, in order."""
        return [unframed(link.receive()) for link in self.links]

    def close(self) -> None:
        """All links."""
        for link in self.links:
            link.close()


class TreePart:
    """A part's place in the tree: it listens to one link, and answers until that is closed.

    work: a method and its packed arguments to the seconds it took and the packed answer, under a
    lock that keeps other threads from the part.
    """

    def __init__(
        self, number: int, work: Callable[[str, Any], tuple[float, Any]], lock: threading.Lock,
        host: str, token: bytes,
    ) -> None:  # fmt: skip
        self.number, self.lock, self.token = number, lock, token
        self.work = weakref.WeakMethod(work)  # a part that nobody asks any more is to go
        # And its thread, if the client's machine is gone and nobody has closed the link.
        weakref.finalize(work.__self__, self.close).atexit = False  # type: ignore[attr-defined]
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.door = socket.create_server((host, 0), family=family)
        self.address = (host, int(self.door.getsockname()[1]))
        self.branch = Branch()
        self.link: Link | None = None
        self.closed = False
        # The thread ends when the client has closed its end, or died.
        threading.Thread(target=self._serve, name="bridle-part", daemon=True).start()

    def join(self, children: Sequence[tuple[str, int]]) -> None:
        """The tops of the subtrees below."""
        self.branch = Branch([connect(address, self.token) for address in children])

    def close(self) -> None:
        """Nothing that is still on its way is worked on."""
        self.closed = True
        with suppress(OSError):  # a thread that waits at the door would keep it open
            self.door.shutdown(socket.SHUT_RDWR)
        self.door.close()
        self.branch.close()
        if self.link is not None:
            self.link.close()

    def _serve(self) -> None:
        try:
            self.link = self._let_in()
            while not self.closed:
                frame = self.link.receive()
                self.branch.send(frame)
                self.link.send(framed(self._reply(*unframed(frame))))
        except (LinkError, OSError):
            pass  # the client sees it: all links above are closed, too
        finally:
            self.close()

    def _let_in(self) -> Link:
        """The first that shows the token."""
        self.door.settimeout(10 * PATIENCE)
        while True:
            connection, _ = self.door.accept()
            stranger = Link(connection, PATIENCE)
            try:
                shown = stranger.exactly(TOKEN)
            except LinkError:
                shown = bytearray()
            if hmac.compare_digest(shown, self.token):
                self.door.close()
                connection.settimeout(None)
                return stranger
            stranger.close()

    def _reply(self, method: str, message: Any, summed: bool) -> Reply:
        own = Reply(0.0, [], number=self.number)
        with self.lock:
            if self.closed or (work := self.work()) is None:
                raise LinkError("closed")
            try:
                own.seconds, answer = work(method, message)
                own.answers = [answer]
            except Exception as error:  # whatever it is, the client is to know
                own.error = error
        return together([own, *self.branch.replies()], summed, weight_of(message))


def together(replies: Sequence[Reply], summed: bool, sent: int) -> Reply:
    """One reply of all: of a part, and of those that it sent a message of that weight."""
    answers = [answer for reply in replies for answer in reply.answers]
    moved = sum(reply.moved for reply in replies)
    moved += sum(sent + weight_of(reply.answers) for reply in replies[1:])
    wrong = next((reply for reply in replies if reply.error is not None), None)
    if wrong is not None:
        return replace(wrong, answers=[])
    if summed and len(answers) > 1:
        answers = [pack(joined([unpack(answer) for answer in answers]))]
    return Reply(max(reply.seconds for reply in replies), answers, moved)
