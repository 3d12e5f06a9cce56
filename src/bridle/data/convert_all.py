"""The files of one data set from svmlight text to Arrow files that agree.

A text shows neither features that none of its rows has nor, if it lacks feature 0, whether it
counts from 0. So all are converted, and those that do not agree with the rest once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bridle.data.arrow import StrPath
from bridle.data.convert import Converted, svmlight_to_arrow
from bridle.data.svmlight import ZeroBased
from bridle.files.packed import ENDINGS


def svmlights_to_arrow(
    paths: Sequence[StrPath],
    targets: Sequence[StrPath],
    *,
    each: Callable[..., Any] = map,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    **options: Any,
) -> list[Converted]:
    """Convert every file; all are then as wide as the widest, and count from 0 if one does.

    each: how a function is called for each file and its target: `map`, or on a cluster. options: of
    `svmlight_to_arrow`.

    Examples
    --------
    >>> import pathlib
    >>> texts = {"a.svm": "1 1:1 3:1\\n", "b.svm": "-1 2:1\\n"}
    >>> for name, text in texts.items():
    ...     _ = pathlib.Path(name).write_text(text)
    >>> from bridle.data.convert_all import svmlights_to_arrow
    >>> found = svmlights_to_arrow(list(texts), ["a.arrow", "b.arrow"])
    >>> [one.n_features for one in found]
    [3, 3]
    """
    convert = partial(svmlight_to_arrow, **options)
    agreed = {"n_features": n_features, "zero_based": zero_based}
    found: list[Converted] = list(each(partial(convert, **agreed), paths, targets))
    zero = any(one.zero_based for one in found)
    # A text that seemed to count from 1 has one feature more if it counts from 0.
    width = n_features or max(one.n_features + (zero and not one.zero_based) for one in found)
    whole = replace(found[0], n_features=width, zero_based=zero)
    again = [
        k for k, one in enumerate(found)
        if (one.n_features, one.zero_based) != (whole.n_features, whole.zero_based)
    ]  # fmt: skip
    redo = partial(convert, n_features=width, zero_based=zero)
    columns = [paths[k] for k in again], [targets[k] for k in again]
    for k, one in zip(again, list(each(redo, *columns)) if again else [], strict=True):
        found[k] = one
    return found


def arrow_names(paths: Sequence[Path], folder: Path) -> list[Path]:
    """day.1.svm.gz is to become day.1.arrow in the folder; ValueError if two would be one."""
    texts = [path.with_suffix("") if path.suffix.lower() in ENDINGS else path for path in paths]
    names = [folder / f"{text.stem}.arrow" for text in texts]
    for k, name in enumerate(names):
        if name in names[:k]:
            raise ValueError(f"{paths[names.index(name)]} and {paths[k]} would both become {name}")
    return names
