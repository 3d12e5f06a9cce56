"""Parts on a Dask cluster: one for each worker, which holds its rows and their dual variables.

A part is an actor: it stays where it is, and messages go to it. When its worker dies, its rows are
read again by another worker, or by the same one once its nanny has restarted it.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle import __version__
from bridle.data.reading import READERS, Wanted, data_ending, read_data
from bridle.rows.cluster.blocks import Block
from bridle.rows.cluster.links import (
    TOKEN,
    Branch,
    LinkError,
    TreePart,
    children,
    connect,
    framed,
    host_of,
    is_summed,
)
from bridle.rows.cluster.messages import PartsLostError
from bridle.rows.cluster.packed import pack, unpack, weight_of
from bridle.rows.cluster.part import Part
from bridle.rows.disk.memory import parse_size

if TYPE_CHECKING:
    from bridle.rows.cluster.stored import StoredBlock

# Seconds: between two looks at whether a silent worker lives; how long to wait for a worker that
# has nothing to do, and for any worker at all, before a lost part is given to a busy one.
LOOK, SPARE, PATIENCE = 1.0, 5.0, 60.0


class ClusterError(RuntimeError):
    """The cluster cannot do this: the message names the worker."""


@dataclass(frozen=True)
class Source:
    """Where some rows come from: a file, its URL, or tasks of Dask that make X, y and weights."""

    name: str
    file: str | None = None
    tasks: tuple[Any, ...] = ()


class RemotePart(Part):
    """A part that says how long it worked. Messages travel packed, by Dask or by links."""

    node: TreePart | None = None

    def __init__(self, *made_of: Any) -> None:
        super().__init__(*made_of)
        self.lock = threading.Lock()

    def timed(self, method: str, message: Any) -> tuple[float, Any]:
        """The seconds that a method took here, and its answer."""
        with self.lock:
            return self._timed(method, message)

    def listen(self, hosts: Sequence[str], token: bytes) -> tuple[str, int] | None:
        """Where a link can be made; what came by links before is not worked on any more."""
        if self.node is not None:
            self.node.close()
        try:
            self.node = TreePart(self.number, self._timed, self.lock, hosts[self.number], token)
        except OSError:
            return None
        return self.node.address

    def join(self, addresses: Sequence[tuple[str, int]]) -> bool:
        """Make the links to the parts below."""
        assert self.node is not None
        try:
            self.node.join([addresses[k] for k in children(len(addresses))[self.number]])
        except LinkError:
            return False
        return True

    def _timed(self, method: str, message: Any) -> tuple[float, Any]:
        arguments = unpack(message)
        clock = time.perf_counter()
        answer = getattr(self, method)(*arguments)
        return time.perf_counter() - clock, pack(answer)


def make_part(
    number: int, names: list[str], files: list[str | None], tasks: list[Any], n_threads: int,
    wanted: Wanted = Wanted(),  # noqa: B008  (frozen)
    n_features: int | None = None, memory: int | None = None,
) -> RemotePart:  # fmt: skip
    """What a worker runs to become one: reads its files, or takes what the tasks made.

    n_features: of all parts, once that is known. memory: of this process; files that would take
    more stay where they are.
    """
    if memory is not None:
        return RemotePart(number, _stored([str(file) for file in files], memory), n_threads)
    blocks: list[Block] = []
    for name, file, made in zip(names, files, tasks, strict=True):
        blocks += [_read(file, wanted)] if file is not None else _blocks(name, *made)
    if n_features is not None:
        blocks = [block.wider(n_features) for block in blocks]
    return RemotePart(number, blocks, n_threads)


def _stored(files: list[str], memory: int) -> list[Block | StoredBlock]:
    """All in memory if they fit in it together, else all on disk."""
    from bridle.rows.cluster.stored import shared_memory

    stored = shared_memory(files, memory)
    return [_read_arrow(file) for file in files] if all(b.fits() for b in stored) else [*stored]


def check_stored(sources: Sequence[Source]) -> None:
    """ValueError if one cannot stay on a disk."""
    for source in sources:
        if source.file is None or is_url(source.file) or data_ending(source.file) != ".arrow":
            raise ValueError(
                f"{source.name}: rows that stay on the disks of workers (memory=) are .arrow files "
                "that the workers see by this name; see bridle convert"
            )


def _read(file: str, wanted: Wanted) -> Block:
    return _read_url(file, wanted) if is_url(file) else _read_file(file, wanted)


def _read_file(file: str, wanted: Wanted) -> Block:
    """Of any format that is read, by the ending of the name."""
    ending = data_ending(file)
    if ending == ".arrow":
        return _read_arrow(file)
    data = read_data(file, wanted)
    if data.y is None:
        raise ValueError(f"{file}: has no labels")
    # A text does not say how wide the data are; the columns of a table are known.
    return Block(file, data.X, data.y, data.weight, data.zero_based, ending not in READERS)


def _read_url(url: str, wanted: Wanted) -> Block:
    """An object of any store that fsspec knows, by way of a file that has no name for long."""
    import fsspec

    with tempfile.TemporaryDirectory(prefix="bridle-") as folder:
        copied = os.path.join(folder, os.path.basename(url) or "rows")
        try:
            with fsspec.open(url, "rb") as source, open(copied, "wb") as target:
                shutil.copyfileobj(source, target)
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", url) from error
        except (ImportError, ValueError) as error:  # of the store: unknown, or not installed
            raise ValueError(f"{url}: {error}") from error
        try:
            return replace(_read_file(copied, wanted), name=url)
        except ValueError as error:
            raise ValueError(str(error).replace(copied, url)) from error


def is_url(file: Any) -> bool:
    """Whether a name is one of fsspec's: s3://bucket/rows.arrow, file:///rows.arrow."""
    return isinstance(file, str) and "://" in file


def _read_arrow(file: str) -> Block:
    from bridle.data.arrow import open_arrow, read_arrow

    rows = open_arrow(file)
    weight = None
    if rows.has_weight:
        weight = np.concatenate([rows.column(k, "weight") for k in range(rows.n_batches)])
    X, y = read_arrow(file)
    return Block(file, X, y, weight, rows.zero_based)


def _blocks(name: str, X: Any, y: Any = None, weight: Any = None) -> list[Block]:
    """A partition as blocks: one of an array or a frame, one for each element of a bag."""
    if not isinstance(X, list | tuple):
        return [Block(name, _matrix(X), y, weight)]
    if not X:
        raise ValueError(f"{name} is empty; leave it out, or divide the rows anew")
    blocks = []
    for k, element in enumerate(X):
        own = f"element {k} of {name}"
        if isinstance(element, tuple):
            blocks.append(Block(own, *element))
        elif y is None:
            raise ValueError(f"{own} has no labels: make it (X, y), or give y as a bag, too")
        else:
            blocks.append(Block(own, element, y[k], None if weight is None else weight[k]))
    return blocks


def _matrix(X: Any) -> Any:
    return X.to_numpy() if hasattr(X, "to_numpy") else X


class DaskRows:
    """Rows on the workers of a cluster, which stay there for any number of fits.

    X : a dask Array or DataFrame with y and sample_weight divided alike; a Bag of CSR matrices
        with a Bag of labels, or of tuples (X, y) or (X, y, sample_weight); or files that all
        workers can read, which hold the labels: Arrow (with weights), svmlight, Parquet, CSV,
        paths or URLs that fsspec knows.
    zero_based : of svmlight files, whether they count features from 0; "auto": those in which a 0
        occurs. label_column : of tables, a name, or a number from 1.
    memory : the most that each worker may have resident, in bytes or as "2G"; .arrow files that
        would take more stay on the disks of the workers, and are read in every epoch.
    A worker gets one part, whose rows are visited by all threads that Dask gives it.

    Attributes: n_parts, bytes_moved (by the client), bytes_between (by workers), rounds (messages
    to all parts), seconds_working (of the slowest worker of each), seconds_overhead (what they took
    beyond that), losses (parts that had to be read again, in words).

    Examples
    --------
    >>> import distributed, numpy as np
    >>> client = distributed.Client(processes=False, n_workers=2, dashboard_address=None)
    >>> for k in range(2):
    ...     bridle.data.write_arrow(f"{k}.arrow", *bridle.data.make_corpus(500, seed=k))
    >>> rows = bridle.DaskRows(client, ["0.arrow", "1.arrow"])
    >>> bridle.LinearSVC(C=0.1).fit(rows).certificate_.relative_gap <= 1e-3
    True
    >>> client.close()
    """

    __row_parts__ = True  # see `bridle.rows.homes`

    def __init__(
        self,
        client: Any,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        zero_based: bool | str = "auto",
        label_column: str | None = None,
        memory: int | str | None = None,
    ) -> None:
        if not hasattr(client, "scheduler_info") or not hasattr(client, "submit"):
            raise TypeError(
                f"client must be a distributed.Client, got {type(client).__name__}: "
                "DaskRows(distributed.Client(ADDRESS), files)"
            )
        self.client = client
        self.memory = parse_size(memory) if isinstance(memory, str) else memory
        self.wanted = Wanted(zero_based=zero_based, label_column=label_column)
        self.n_features: int | None = None  # where files do not show it one by one
        self.sources = sources_of(X, y, sample_weight)
        if self.memory is not None:
            check_stored(self.sources)
        self.feature_names = [str(c) for c in X.columns] if hasattr(X, "columns") else None
        workers = self._workers(PATIENCE)
        self._check_versions(workers)
        groups = np.array_split(np.arange(len(self.sources)), min(len(workers), len(self.sources)))
        self._groups = [[self.sources[i] for i in group] for group in groups]
        self.bytes_moved, self.bytes_between, self.rounds = 0, 0, 0
        self.seconds_overhead = self.seconds_working = 0.0
        self.losses: list[str] = []
        self.unwanted: list[tuple[str, int]] = []
        self.solved: tuple[Any, ...] = ()  # the solutions of the last fit, to go on from
        futures = [self._submit(k, workers[k]) for k in range(len(self._groups))]
        self._places = workers[: len(futures)]
        self._actors = [self._result(k, future) for k, future in enumerate(futures)]
        self._lock, self._linkable = threading.RLock(), True
        self._branch: Branch | None = None
        self._agree_on_width()

    def __len__(self) -> int:
        return len(self._groups)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("DaskRows stay on their cluster: they are no matrix in memory")

    def __getstate__(self) -> dict[str, Any]:
        """A fitted estimator can be pickled: what was measured goes with it, the rows stay."""
        kept = (
            "bytes_moved", "bytes_between", "rounds", "seconds_working", "seconds_overhead",
            "losses", "feature_names",
        )  # fmt: skip
        return {name: getattr(self, name) for name in kept} | {
            "client": None, "sources": [], "unwanted": [], "solved": (),
            "_groups": [], "_places": [], "_actors": [], "_branch": None, "_linkable": False,
        }  # fmt: skip

    @property
    def n_parts(self) -> int:
        """How many parts: one for each worker, if there are as many partitions."""
        return len(self)

    def call(self, method: str, *arguments: Any, only: Sequence[int] | None = None) -> list[Any]:
        """The answers of all parts, or of some, in order; PartsLostError if one began anew."""
        clock = time.perf_counter()
        branch = self._links() if only is None else None
        if branch is None:
            answers, slowest, moved = self._by_dask(method, pack(arguments), only)
        else:
            answers, slowest, moved = self._by_links(branch, method, arguments)
        self.rounds += 1
        self.seconds_overhead += time.perf_counter() - clock - slowest
        self.seconds_working += slowest
        self.bytes_moved += moved
        return [unpack(answer) for answer in answers]

    def _by_dask(
        self, method: str, message: Any, only: Sequence[int] | None = None
    ) -> tuple[list[Any], float, int]:
        """The answers of these parts, the seconds of the slowest, and bytes."""
        chosen, moved = list(range(len(self)) if only is None else only), 0
        places = list(self._places)  # another thread may have a part read again meanwhile
        calls = [self._send(k, "timed", method, message) for k in chosen]
        answers, slowest, lost = [], 0.0, []
        for k, call in zip(chosen, calls, strict=True):
            try:
                seconds, answer = self._wait(places[k], call)
            except _LostError:
                lost.append(k)
                continue
            slowest = max(slowest, seconds)
            moved += weight_of(message) + weight_of(answer)
            answers.append(answer)
        if lost:
            with self._lock:
                self._cut()
                told = [self._replace(k) for k in lost if places[k] == self._places[k]]
            raise PartsLostError(lost, "; ".join(told) or "a worker died")
        return answers, slowest, moved

    def _by_links(
        self, branch: Branch, method: str, arguments: Any
    ) -> tuple[list[Any], float, int]:
        """The same of all parts; sums are made on the way."""
        message, summed = pack(arguments), is_summed(method, arguments)
        with self._lock:
            try:
                branch.send(framed((method, message, summed)))
                replies = branch.replies()
            except LinkError:
                self._cut()
                raise self._broken() from None
            except BaseException:  # a second Ctrl-C: half a message may be on its way
                self._cut()
                raise
        for reply in replies:
            if isinstance(reply.error, OSError):
                raise ClusterError(f"worker {self._places[reply.number]}: {reply.error}")
            if reply.error is not None:
                raise reply.error
        self.bytes_between += sum(reply.moved for reply in replies)
        answers = [answer for reply in replies for answer in reply.answers]
        moved = len(replies) * weight_of(message) + weight_of(answers)
        return answers, max(reply.seconds for reply in replies), moved

    @property
    def linked(self) -> bool:
        """Whether messages go by links of our own, and not by Dask."""
        return self._branch is not None

    def _links(self) -> Branch | None:
        """Links to the parts, made if need be; None where there can be none."""
        with self._lock:
            if self._branch is None and self._linkable:
                try:
                    self._branch = self._link()
                    self._linkable = self._branch is not None
                except _LostError:
                    pass  # the message by Dask will tell who
            return self._branch

    def _link(self) -> Branch | None:
        hosts, token = [host_of(place) for place in self._places], secrets.token_bytes(TOKEN)
        if None in hosts:
            return None
        addresses = self._ask("listen", hosts, token)
        if None in addresses or not all(self._ask("join", addresses)):
            return None
        try:
            mine = [addresses[k] for k in children(len(self))[-1]]
            look = partial(_look, self.client, self._places)
            return Branch([connect(address, token, LOOK, look) for address in mine])
        except LinkError:  # from here the workers can only be reached through the scheduler
            return None

    def _ask(self, method: str, *arguments: Any) -> list[Any]:
        """The actors themselves."""
        calls = [self._send(k, method, *arguments) for k in range(len(self))]
        return [self._wait(*each) for each in zip(self._places, calls, strict=True)]

    def _cut(self) -> None:
        """No links, until they are made again."""
        if self._branch is not None:
            self._branch.close()
        self._branch = None

    def _broken(self) -> PartsLostError:
        """A link broke: since a worker died, which is soon known, or for a reason of its own."""
        deadline = time.perf_counter() + 5 * LOOK
        while not (dead := _dead(self.client, self._places)) and time.perf_counter() < deadline:
            time.sleep(0.05)
        if not dead:
            self._linkable = False
            return PartsLostError((), "a link between workers broke; messages go by Dask now")
        return PartsLostError(dead, "; ".join(self._replace(k) for k in dead))

    def _agree_on_width(self) -> None:
        """Texts show no features that none of their rows has: the widest says how many there are.

        A part that is lost meanwhile has been read again.
        """
        if all(s.file is None or data_ending(s.file) in READERS for s in self.sources):
            return
        while self.n_features is None:
            try:
                found = self.call("describe")
                self.n_features = max(one["n_features"] for one in found)
                self.call("widen", self.n_features)
            except PartsLostError:
                self.n_features = None

    def close(self) -> None:
        """Let the workers forget the rows."""
        self._cut()
        self._actors = []

    def _send(self, k: int, method: str, *arguments: Any) -> Any:
        try:
            with self.client.as_current():  # actors look for a client of their own
                return getattr(self._actors[k], method)(*arguments)
        except RuntimeError:  # Dask knows already that the worker is gone
            return None

    def _wait(self, place: str, call: Any) -> Any:
        """The answer of a call to a worker; _LostError if it is gone."""
        if call is None:
            raise _LostError
        while True:
            try:
                return call.result(timeout=LOOK)
            except TimeoutError:
                if not self._alive(place):
                    raise _LostError from None
            except OSError as error:
                # Of the connection, or of what the part did? A dead worker is soon known to be.
                deadline = time.perf_counter() + 5 * LOOK
                while time.perf_counter() < deadline:
                    if not self._alive(place):
                        raise _LostError from None
                    time.sleep(0.05)
                raise ClusterError(f"worker {place}: {error}") from error

    def _alive(self, place: str) -> bool:
        return place in self._known()

    def _known(self) -> dict[str, Any]:
        return _known(self.client)

    def _workers(self, patience: float) -> list[str]:
        """The addresses of the workers; waits for one."""
        deadline = time.perf_counter() + patience
        while True:
            found = sorted(self._known())
            if found:
                return found
            if time.perf_counter() > deadline:
                raise ClusterError("the cluster has no workers")
            time.sleep(0.1)

    def _check_versions(self, workers: list[str]) -> None:
        """A worker may have no bridle at all: what is sent to ask must not need it."""
        found = self.client.run(
            eval, "__import__('bridle').__version__", workers=workers, on_error="return"
        )
        for worker, version in sorted(found.items()):
            if version != __version__:
                has = f"bridle {version}" if isinstance(version, str) else f"no bridle ({version})"
                raise ClusterError(
                    f"worker {worker} has {has}, but this is bridle {__version__}: install "
                    f"the same version everywhere"
                )

    def _submit(self, k: int, worker: str) -> Any:
        group = self._groups[k]
        # Others may make them, too: a task keeps its wish for a worker even when that has died.
        made = [
            self.client.compute(list(s.tasks), workers=[worker], allow_other_workers=True)
            for s in group
        ]
        return self.client.submit(
            make_part, k, [s.name for s in group], [s.file for s in group], made,
            self._known().get(worker, {}).get("nthreads", 1), self.wanted, self.n_features,
            self.memory,
            actor=True, workers=[worker], key=f"bridle-part-{k}-{uuid.uuid4().hex}", pure=False,
        )  # fmt: skip

    def _result(self, k: int, future: Any) -> Any:
        """The actor; ValueError with the worker's name if its rows are bad."""
        while True:
            try:
                with self.client.as_current():
                    return future.result(timeout=LOOK)
            except TimeoutError:
                if not self._alive(self._places[k]):
                    raise ClusterError(
                        f"worker {self._places[k]} died while it read {self._names(k)}"
                    ) from None
            except ValueError as error:
                raise ValueError(f"worker {self._places[k]}: {error}") from error
            except OSError as error:
                if error.filename is None:  # of the connection
                    raise
                told = f"{error.strerror}, says worker {self._places[k]}"
                raise type(error)(error.errno, told, error.filename) from error

    def _names(self, k: int) -> str:
        names = [source.name for source in self._groups[k]]
        return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"

    def _replace(self, k: int) -> str:
        """A new part of the same rows on another worker; says what happened."""
        gone = self._places[k]
        for _ in range(5):
            worker = self._place_for(k)
            self._places[k] = worker
            try:
                self._check_versions([worker])
                self._actors[k] = self._result(k, self._submit(k, worker))
            except (ClusterError, OSError, KeyError):
                if self._alive(worker):
                    raise
                continue  # that one died, too
            what = f"worker {gone} died: {self._names(k)} read again by {worker}"
            self.losses.append(what)
            return what
        raise ClusterError(f"{self._names(k)}: five workers died in a row while reading it")

    def _place_for(self, k: int) -> str:
        """A worker without a part, if one turns up soon; else the one with the fewest."""
        deadline = time.perf_counter() + SPARE
        while True:
            workers = [w for w in self._workers(PATIENCE) if w != self._places[k]]
            others = [place for j, place in enumerate(self._places) if j != k]
            spare = [worker for worker in workers if worker not in others]
            if spare:
                return spare[0]
            if workers and time.perf_counter() > deadline:
                return min(workers, key=others.count)
            time.sleep(0.1)


class _LostError(Exception):
    pass


def _known(client: Any) -> dict[str, Any]:
    """The workers that are alive, by their addresses."""
    found: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return found


def _dead(client: Any, places: Sequence[str]) -> list[int]:
    known = _known(client)
    return [k for k, place in enumerate(places) if place not in known]


def _look(client: Any, places: Sequence[str]) -> None:
    """Nothing was heard of the workers for a while."""
    if _dead(client, places):
        raise LinkError("a worker died")


def is_remote(X: Any) -> bool:
    """Whether X is on a cluster: DaskRows, or a collection of Dask, told without importing it."""
    return isinstance(X, DaskRows) or _is_dask(X)


def _is_dask(X: Any) -> bool:
    return hasattr(X, "__dask_graph__")


def as_rows(X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """X itself if it is in parts already; else it is put on the cluster of the current client."""
    if hasattr(X, "__row_parts__"):
        if y is not None or sample_weight is not None:
            raise ValueError("DaskRows have their labels and weights already: give none")
        return X
    from distributed import default_client

    try:
        client = default_client()  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise ValueError("there is no Dask client: make a distributed.Client first") from error
    return DaskRows(client, X, y, sample_weight)


def sources_of(X: Any, y: Any, sample_weight: Any) -> list[Source]:
    """The partitions of what the user has."""
    if isinstance(X, str | os.PathLike):
        X = [X]
    if isinstance(X, list | tuple):
        if y is not None or sample_weight is not None:
            raise ValueError("Files hold labels and weights: give no others")
        if not X:
            raise ValueError("the list of files is empty")
        files = [file if is_url(file) else os.path.abspath(os.fspath(file)) for file in X]
        return [Source(file, file) for file in files]
    if not _is_dask(X):
        raise TypeError(
            f"rows for a cluster are a dask Array, DataFrame or Bag, or files, "
            f"not {type(X).__name__}"
        )
    if y is None and hasattr(X, "ndim"):
        raise ValueError(f"a dask {type(X).__name__} holds no labels: give y")
    columns = [_partitions(X)]
    for name, other in (("y", y), ("sample_weight", sample_weight)):
        if other is None:
            break
        parts = _partitions(other)
        if len(parts) != len(columns[0]):
            raise ValueError(f"X has {len(columns[0])} partitions, but {name} has {len(parts)}")
        columns.append(parts)
    return [
        Source(f"partition {k}", tasks=tasks)
        for k, tasks in enumerate(zip(*columns, strict=True))
    ]  # fmt: skip


def _partitions(collection: Any) -> list[Any]:
    """One task for each partition of rows."""
    if not _is_dask(collection):
        raise TypeError(
            f"with a dask X, y and sample_weight are dask collections, too, "
            f"not {type(collection).__name__}"
        )
    if getattr(collection, "ndim", 1) == 2 and hasattr(collection, "rechunk"):
        collection = collection.rechunk({1: -1})
    found: list[Any] = np.ravel(np.array(collection.to_delayed(), dtype=object)).tolist()
    return found
