"""Models that travel: the files and objects of other tools, one file here for each of them.

    liblinear      text models of LIBLINEAR's train and predict              read and written
    svmlight       text models of SVM-light, linear and with kernels         read and written
    onnx           for onnxruntime and whatever else runs ONNX               written
    scikit-learn   a fitted LinearSVC: `to_sklearn`, `from_sklearn`          both ways

A format is a module with `write(path, model)`; one that is read too has `read(path, C, **further)`
and a BEGIN by which its files are recognised. Whatever is wrong with a file ends in ModelError,
which names the line. Other tools' files hold no certificate: that of an imported model has an
infinite gap, until `certify` proves a better one.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from bridle.errors import ModelError
from bridle.exchange.scikit_learn import from_sklearn, to_sklearn
from bridle.files.atomic import StrPath
from bridle.models.linear import LinearModel
from bridle.models.storage import as_model

FORMATS = {
    "liblinear": "bridle.exchange.liblinear",
    "svmlight": "bridle.exchange.svmlight",
    "onnx": "bridle.exchange.onnx",
}


def export_model(path: StrPath, model: Any, format: str | None = None) -> None:
    """Write a model, or a fitted estimator, in another tool's format.

    format: a name in FORMATS; without it, the ending of the file's name.

    Examples
    --------
    >>> model = bridle.LinearSVC().fit([[0.0], [1.0]], [-1, 1])
    >>> bridle.export_model("two.liblinear", model)
    >>> with open("two.liblinear") as file:
    ...     print(file.readline().strip())
    solver_type L2R_L2LOSS_SVC_DUAL
    """
    name = Path(os.fsdecode(path)).suffix[1:] if format is None else format
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        if format is None:
            raise ValueError(
                f"{os.fsdecode(path)}: which format? Its name ends in none of {known}; say --format"
            )
        raise ValueError(f"{format!r} is no format: {known}")
    held = as_model(model)
    if isinstance(held, LinearModel):
        held = held.dense()
    importlib.import_module(FORMATS[name]).write(path, held)


def import_model(
    path: StrPath, C: float = 1.0, *, epsilon: float | None = None, nu: float | None = None
) -> Any:
    """Read a model of LIBLINEAR or SVM-light; which of them it is, its first line tells.

    C, and epsilon of a regression, or instead the nu of one class: what it was trained with, which
    these files do not say; `certify` needs it.

    Examples
    --------
    >>> model = bridle.LinearSVC().fit([[0.0], [1.0]], [-1, 1])
    >>> bridle.export_model("two.liblinear", model)
    >>> bridle.import_model("two.liblinear", C=1.0).predict([[2.0]])
    array([1.])
    """
    with open(path, "rb") as file:
        begin = file.read(64)
    for module in map(importlib.import_module, FORMATS.values()):
        if hasattr(module, "BEGIN") and begin.startswith(module.BEGIN):
            return module.read(path, C, epsilon=epsilon, nu=nu)
    first = begin.partition(b"\n")[0][:40].decode("latin-1")
    raise ModelError(
        f"{os.fsdecode(path)}:1: expected a model of LIBLINEAR ('solver_type ...') or of SVM-light "
        f"('SVM-light Version ...'), found {first!a}"
    )


__all__ = ["FORMATS", "export_model", "from_sklearn", "import_model", "to_sklearn"]
