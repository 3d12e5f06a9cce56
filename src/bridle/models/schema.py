"""What the file of a model must look like, kind by kind: one table, looked at before anything else.

How the parts must fit each other, the models say themselves when they are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridle.files.schema import (
    BOOLEAN,
    COUNT,
    FINITE,
    LABEL,
    NAMES,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    SCALE,
    SMALL,
    STRING,
    TABLE,
    Arrays,
    Check,
    check_arrays,
    each,
    either,
    table,
    word_of,
)
from bridle.models.deciding import MULTI_CLASS
from bridle.objective.bias import BIASES
from bridle.solving.stopping import Status
from numpy.typing import NDArray

CERTIFICATE = {
    "primal": NUMBER, "dual": NUMBER, "source": word_of("solver", "repair", "dual-solver"),
}  # fmt: skip
CERTIFICATES = each(table(CERTIFICATE, {"rounding": NUMBER, "assumption": STRING}))
CLASSES = table({"dtype": STRING, "values": each(LABEL)})
OBJECTIVE = table({
    "loss": STRING, "C": POSITIVE, "bias": word_of(*BIASES), "bias_scale": SCALE,
    "weighted": BOOLEAN,
}, {"parameters": TABLE})  # fmt: skip
CALIBRATOR = either("method", {
    "platt": table({"slope": FINITE, "offset": FINITE}),
    "isotonic": table({"scores": each(FINITE), "probabilities": each(FINITE)}),
})  # fmt: skip
INFO = table({}, {
    "solver": STRING, "status": word_of(*(status.value for status in Status)),
    "calibrators": each(CALIBRATOR), "class_weight": each(NOT_NEGATIVE),
    "cost": each(each(FINITE)), "feature_names": NAMES, "format": STRING, "template": NAMES,
    "break_ties": BOOLEAN,
    "columns": table({"label": STRING, "numbers": NAMES, "text": NAMES}),
    "lam": POSITIVE, "rate": word_of("decaying", "constant"), "rows_learned": COUNT,
    "eta0": POSITIVE, "wrong": NOT_NEGATIVE, "counted": NOT_NEGATIVE,
})  # fmt: skip

CLASSIFIER = {
    "classes": CLASSES, "objective": OBJECTIVE, "certificates": CERTIFICATES,
    "fingerprint": STRING, "n_rows": COUNT, "zero_based": BOOLEAN, "info": INFO,
}  # fmt: skip
STRUCTURAL = {"C": POSITIVE, "info": INFO}
# Chains and rankers once had their only certificate among the other fields.
PROOF = {"certificates": CERTIFICATES, **CERTIFICATE}

KERNEL = table({"name": STRING}, {"gamma": NOT_NEGATIVE, "coef0": FINITE, "degree": SMALL})
KERNEL_FUNCTION = table({
    "kernel": KERNEL, "n_features": COUNT, "objective": OBJECTIVE, "certificates": CERTIFICATES,
    "fingerprint": STRING, "n_rows": COUNT, "zero_based": BOOLEAN, "info": INFO,
})  # fmt: skip

LINEAR_FUNCTION = table({
    "objective": OBJECTIVE, "certificates": CERTIFICATES, "fingerprint": STRING,
    "n_rows": COUNT, "zero_based": BOOLEAN, "info": INFO,
})  # fmt: skip

HEADERS: dict[str, Check] = {
    "linear": table(CLASSIFIER, {"multi_class": word_of(*MULTI_CLASS), "n_features": COUNT}),
    "kernel": table(
        {**CLASSIFIER, "n_features": COUNT, "kernel": KERNEL},
        {"multi_class": word_of("ovr", "ovo")},
    ),
    "multivariate": table(CLASSIFIER, {"multi_class": word_of("ovr")}),
    "regression": LINEAR_FUNCTION,
    "linear-one-class": LINEAR_FUNCTION,
    "kernel-regression": KERNEL_FUNCTION,
    "one-class": KERNEL_FUNCTION,
    "ranking": table(
        {**STRUCTURAL, "loss": STRING, "threshold": FINITE, "fingerprint": STRING,
         "n_queries": COUNT, "zero_based": BOOLEAN},
        PROOF,
    ),
    "chain": table(
        {**STRUCTURAL, "classes": each(LABEL), "n_rows": COUNT, "transitions": BOOLEAN,
         "boundaries": BOOLEAN, "intercept": BOOLEAN},
        {**PROOF, "names": NAMES, "n_features": COUNT},
    ),
    "structured": table(
        {**STRUCTURAL, "oracle": STRING, "rescaling": word_of("margin", "slack")},
        {**PROOF, "parameters": TABLE},
    ),
    "tree": table({**STRUCTURAL, "grammar": TABLE, "n_rows": COUNT}, PROOF),
    "multilabel": table({**STRUCTURAL, "n_rows": COUNT}, PROOF),
}  # fmt: skip

SUPPORT: Arrays = {
    "support": ("f", 2), "support_indptr": ("i", 1), "support_indices": ("i", 1),
    "support_values": ("f", 1),
}  # fmt: skip
WEIGHTS: Arrays = {
    "coef": ("f", 1), "intercept": ("f", 1), "alpha": ("f", 1), "scale": ("f", 1),
}  # fmt: skip
FUNCTION: Arrays = {"coefficients": ("f", 1), "intercept": ("f", 1), **SUPPORT}

ARRAYS: dict[str, Arrays] = {
    "linear": {
        "coef": ("f", 2), "intercept": ("f", 1), "alpha": ("f", 2), "scale": ("f", 1),
        "coef_indptr": ("i", 1), "coef_indices": ("i", 1), "coef_values": ("f", 1),
        "last": ("f", 2),
    },
    "multivariate": {"coef": ("f", 2), "intercept": ("f", 1)},
    "kernel": {
        "coefficients": ("f", 2), "intercept": ("f", 1), "scale": ("f", 1), **SUPPORT,
    },
    "kernel-regression": FUNCTION, "one-class": FUNCTION,
    "regression": WEIGHTS, "linear-one-class": WEIGHTS,
    "ranking": {"coef": ("f", 1)},
    "chain": {"emissions": ("f", 2), "extras": ("f", 2), "transitions": ("f", 2)},
    "structured": {"w": ("f", 1)},
    "tree": {"indices": ("i", 1), "weights": ("f", 1)},
    "multilabel": {"coef": ("f", 2), "intercept": ("f", 1), "pairs": ("f", 2)},
}  # fmt: skip


def check_parts(kind: str, fields: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """ValueError says what cannot be; a kind that is not in the table is its owner's to check."""
    if kind in HEADERS:
        HEADERS[kind](fields, "")
        check_arrays(arrays, ARRAYS[kind])
