"""Files that are whole or not there: written beside their name, flushed, and renamed."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

StrPath = str | os.PathLike[str]


@contextlib.contextmanager
def replacing(path: StrPath) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` once it is complete and on the disk.

    If that fails, what was at `path` is still there, and the OSError has its name.
    """
    target = Path(os.path.realpath(path))
    with _blamed_on(path):
        if target.exists() and not target.is_file():  # a device or a pipe: not to be replaced
            with open(target, "wb") as file:
                yield file
            return
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    _sync_folder(target.parent)


@contextlib.contextmanager
def _blamed_on(path: StrPath) -> Iterator[None]:
    """Gives the name to what fails without one, as writing does, or with a temporary one."""
    try:
        yield
    except OSError as error:
        temporary = str(error.filename).endswith(".tmp")
        if error.errno is not None and (error.filename is None or temporary):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


def _sync_folder(folder: Path) -> None:
    """So that the new name survives a power cut, where folders can be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
