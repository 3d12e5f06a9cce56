"""Arrays that are mapped files."""

from __future__ import annotations

from typing import Any


def release_pages(vector: Any) -> None:
    """The pages of an array that is a mapped file need not stay in memory; others are let be."""
    pages = getattr(vector, "_mmap", None)
    if pages is None:
        return
    import mmap

    if hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)
