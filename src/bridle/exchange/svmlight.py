"""SVM-light's text models: kernel, parameters, threshold b, then the support vectors.

    SVM-light Version V6.02
    0 # kernel type                        0 linear, 1 polynomial, 2 rbf, 3 sigmoid
    3 # kernel parameter -d                (s x.z + r)^d
    1 # kernel parameter -g                exp(-g |x - z|^2)
    1 # kernel parameter -s                tanh(s x.z + r)
    1 # kernel parameter -r
    empty# kernel parameter -u
    9 # highest feature index
    200 # number of training documents
    52 # number of support vectors plus 1
    0.17 # threshold b, each following line is a SV (starting with alpha*y)
    0.5 1:0.2 4:0.7 #

The decision is sum_j (alpha y)_j K(s_j, x) - b, for two classes. SVM-light does not penalise b:
bridle's free bias. A linear model is written as a single vector of coefficient 1: w itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.errors import ModelError
from bridle.exchange.text import UNCERTIFIED, Lines
from bridle.files.atomic import StrPath, replacing
from bridle.matrix.door import check_width
from bridle.models.header import Objective
from bridle.models.kernel import KernelModel
from bridle.models.linear import LinearModel
from bridle.objective.kernels import Kernel
from bridle.objective.kernels.linear import Linear
from bridle.objective.kernels.settling import kernel_named

BEGIN = b"SVM-light Version "
KERNELS = ("linear", "poly", "rbf", "sigmoid")


def write(path: StrPath, model: Any) -> None:
    """For svm_classify."""
    if not isinstance(model, LinearModel | KernelModel) or len(model.intercept) != 1:
        raise ModelError("SVM-light has linear and kernel models of two classes only")
    if isinstance(model, KernelModel) and model.scale is not None:
        raise ModelError("the model divides features by their scale, which SVM-light's files lack")
    from bridle.data.svmlight import format_rows
    from scipy.sparse import csr_matrix

    kernel: Kernel
    if isinstance(model, LinearModel):
        kernel, coefficients, vectors = Linear(), np.ones(1), csr_matrix(model.coef)
    else:
        kernel, coefficients = model.kernel, model.coefficients[0]
        vectors = csr_matrix(model.support, dtype=np.float64)
    if kernel.name not in KERNELS:
        raise ModelError(f"SVM-light has no kernel of name {kernel.name!r}")
    own = {"gamma": 1.0, "degree": 3, "coef0": 0.0} | kernel.parameters
    gamma, slope = (own["gamma"], 1.0) if kernel.name == "rbf" else (1.0, own["gamma"])
    header = [
        "SVM-light Version V6.02",
        f"{KERNELS.index(kernel.name)} # kernel type",
        f"{own['degree']} # kernel parameter -d",
        f"{gamma:.17g} # kernel parameter -g",
        f"{slope:.17g} # kernel parameter -s",
        f"{own['coef0']:.17g} # kernel parameter -r",
        "empty# kernel parameter -u",
        f"{model.n_features} # highest feature index",
        f"{model.n_rows} # number of training documents",
        f"{len(coefficients) + 1} # number of support vectors plus 1",
        f"{0.0 - float(model.intercept[0])!r} # threshold b, each following line is a SV "
        "(starting with alpha*y)",
    ]
    vectors.sum_duplicates()
    rows = format_rows(vectors, coefficients)
    with replacing(path) as file:
        file.write("".join(line + "\n" for line in header).encode())
        file.write(rows)


def read(path: StrPath, C: float = 1.0, **others: float | None) -> LinearModel | KernelModel:
    """A model that svm_learn wrote; only classifiers are read, which have no epsilon and no nu."""
    from bridle.data import SvmlightError, read_svmlight_bytes

    lines = Lines(path)
    lines.next("SVM-light Version ...")
    kind = lines.count_in(_value(lines, "kernel type"), "a kernel type")
    if kind >= len(KERNELS):
        lines.fail("a kernel type of 0 to 3", str(kind))
    degree = lines.count_in(_value(lines, "kernel parameter -d"), "a degree")
    gamma, slope, coef0 = (
        lines.number_in(_value(lines, f"kernel parameter -{name}"), "a number") for name in "gsr"
    )
    _value(lines, "kernel parameter -u")
    n_features = lines.count_in(_value(lines, "highest feature index"), "an index")
    try:
        check_width(n_features)
    except ValueError as error:
        lines.fail("an index", str(error))
    n_rows = lines.count_in(_value(lines, "number of training documents"), "a count")
    n_vectors = lines.count_in(_value(lines, "number of support vectors plus 1"), "a count", 1) - 1
    threshold = lines.number_in(_value(lines, "threshold b"), "a number")
    vectors, coefficients = None, np.zeros(0)
    if lines.rest.strip():
        try:  # blank lines, so that the lines of an error are those of the file
            vectors, coefficients = read_svmlight_bytes(
                b"\n" * lines.number + lines.rest, lines.name, dtype=np.float64, zero_based=False,
                n_features=n_features,
            )  # fmt: skip
        except SvmlightError as error:
            raise ModelError(str(error)) from error
    if len(coefficients) != n_vectors:
        raise ModelError(
            f"{lines.name}:{lines.number - 1}: expected {n_vectors} support vectors, "
            f"found {len(coefficients)}"
        )
    common: dict[str, Any] = {
        "intercept": np.array([0.0 - threshold]),
        "classes": np.array([-1.0, 1.0]),
        "objective": Objective("hinge", C, "free"),
        "certificates": (UNCERTIFIED,),
        "fingerprint": "",
        "n_rows": 0 if KERNELS[kind] == "linear" else n_rows,
        "info": {"solver": "SVM-light"},
    }
    if KERNELS[kind] == "linear":
        weights = np.zeros(n_features) if vectors is None else coefficients @ vectors
        return LinearModel(coef=np.asarray(weights, np.float64)[None], **common)
    from scipy.sparse import csr_matrix

    support = csr_matrix((0, n_features)) if vectors is None else vectors
    name = KERNELS[kind]
    parameters = {"gamma": gamma if name == "rbf" else slope, "degree": degree, "coef0": coef0}
    return KernelModel(
        kernel=kernel_named(name, parameters),
        support=support,
        coefficients=coefficients[None],
        **common,
    )


def _value(lines: Lines, what: str) -> str:
    """The value of a line 'value # what'."""
    line = lines.next(f"'... # {what}'")
    value, sign, comment = line.partition("#")
    if not sign or not comment.strip().startswith(what):
        lines.fail(f"'... # {what}'", repr(line[:40]))
    return value.strip()
