"""What became of an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

Outcome = Literal["accepted", "refused"]


def refused_by(
    work: Callable[[], Any], errors: tuple[type[Exception], ...], named: str = ""
) -> Outcome:
    """Accepted if the work is done; refused by one of these errors, with a message.

    named: what the message must speak of, such as the file's name. Other errors pass.
    """
    try:
        work()
    except errors as error:
        said = str(error)
        if not said or (named and named not in said):
            raise AssertionError(
                f"{type(error).__name__} does not name {named!r}: {said}"
            ) from error
        return "refused"
    return "accepted"
