"""LIBLINEAR's text models.

    solver_type L2R_L1LOSS_SVC_DUAL
    nr_class 3
    label 7 1 2                      the order of the columns below
    nr_feature 4
    bias 1                           below zero: none. Else a constant feature of this value
    w
    0.1 -0.3 0.2                     one line for each feature, then one for the constant feature;
    ...                              one column for each class, or a single one for two classes,
                                     positive for the first label (Crammer & Singer: two)

A regression (L2R_L1LOSS_SVR_DUAL, ...) has no line of labels, and one column. So has ONECLASS_SVM,
which has no bias and says rho, on a line of its own after that of the bias. What it was trained
with, C, epsilon or nu, the file does not say. The constant feature is part of |w|^2 in LIBLINEAR's
objective: bridle's regularised bias.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from bridle.errors import ModelError
from bridle.exchange.text import UNCERTIFIED, Lines
from bridle.files.atomic import StrPath, replacing
from bridle.matrix.arrays import Array
from bridle.models.calibration import own_probabilities
from bridle.models.header import Objective
from bridle.models.linear import LinearModel
from bridle.models.one_class import LinearOneClassModel
from bridle.models.regression import LinearFunction, RegressionModel
from bridle.objective.certificate import Certificate
from bridle.objective.losses import loss_from
from numpy.typing import NDArray

BEGIN = b"solver_type "

# solver_type -> loss.
LOSSES = {
    "L2R_L2LOSS_SVC_DUAL": "squared_hinge",
    "L2R_L2LOSS_SVC": "squared_hinge",
    "L2R_L1LOSS_SVC_DUAL": "hinge",
    "MCSVM_CS": "hinge",
    "L2R_LR": "logistic",
    "L2R_LR_DUAL": "logistic",
    "L1R_L2LOSS_SVC": "squared_hinge",
    "L1R_LR": "logistic",
    "L2R_L2LOSS_SVR": "squared_epsilon_insensitive",
    "L2R_L2LOSS_SVR_DUAL": "squared_epsilon_insensitive",
    "L2R_L1LOSS_SVR_DUAL": "epsilon_insensitive",
    "ONECLASS_SVM": "one_class",
}
# Of one class no objective is known to be above any number.
UNBOUNDED = Certificate(float("inf"), float("-inf"), "dual-solver")


def _l1_ratio(name: str) -> float:
    return 1.0 if name.startswith("L1R_") else 0.0


# loss and l1_ratio -> solver_type: of several the first.
NAMES = {
    (loss, _l1_ratio(name)): name for name, loss in reversed(LOSSES.items()) if name != "MCSVM_CS"
}


def write(path: StrPath, model: Any) -> None:
    """For liblinear-predict and its kin."""
    if not isinstance(model, LinearModel | LinearFunction):
        raise ModelError(f"LIBLINEAR has linear models only, this one is of kind {model.kind!r}")
    objective = model.objective
    formula = objective.loss, objective.l1_ratio
    if formula not in NAMES:
        penalty = f" and the penalty {objective.penalty['penalty']!r}" if objective.l1_ratio else ""
        raise ModelError(f"LIBLINEAR has no solver for the loss {objective.loss!r}{penalty}")
    name, labels, coef, intercept = NAMES[formula], None, *_functions(model)
    if isinstance(model, LinearModel):
        labels = _integer_labels(model.classes)
        if model.multi_class == "crammer_singer":
            name = "MCSVM_CS"
            if len(coef) == 1:  # two columns even for two classes
                coef, intercept = np.vstack([-coef, coef]) / 2, np.append(-intercept, intercept) / 2
        elif len(coef) == 1:
            labels = labels[::-1]  # the score is positive for the first label
    scale = objective.bias_scale if objective.bias == "regularised" else 1.0
    of_one_class = isinstance(model, LinearOneClassModel)
    has_bias = bool(intercept.any()) and not of_one_class
    rows = [*coef.T.tolist(), *([(intercept / scale).tolist()] if has_bias else [])]
    header = [
        f"solver_type {name}", f"nr_class {2 if labels is None else len(labels)}",
        *([] if labels is None else [f"label {' '.join(map(str, labels))}"]),
        f"nr_feature {model.n_features}", f"bias {scale if has_bias else -1.0:.17g}",
        *([f"rho {-intercept[0]:.17g}"] if of_one_class else []), "w",
    ]  # fmt: skip
    with replacing(path) as file:
        file.write("".join(line + "\n" for line in header).encode())
        for row in rows:
            file.write((" ".join(map(repr, row)) + "\n").encode())


def _functions(model: LinearModel | LinearFunction) -> tuple[Array, Array]:
    """Weights and intercepts, a row for each function."""
    if isinstance(model, LinearFunction):
        return model.coef[None], np.array([model.intercept])
    if model.multi_class == "ovo":
        raise ModelError("LIBLINEAR has one function for each class; this model has pairs of them")
    if model.multi_class == "multinomial" and len(model.classes) > 2:
        raise ModelError(
            "LIBLINEAR's logistic regression is one class against the others, and so are its "
            "probabilities; this model is multinomial: train with multi_class='ovr'"
        )
    return model.coef, model.intercept


def read(
    path: StrPath, C: float = 1.0, epsilon: float | None = None, nu: float | None = None
) -> LinearModel | LinearFunction:
    """A model that liblinear-train wrote.

    epsilon, nu: of a regression and of one class, what they were trained with.
    """
    lines = Lines(path)
    header = _header(lines)
    name, labels, bias = header["solver_type"], header.get("labels", []), header["bias"]
    jointly, loss = name == "MCSVM_CS", loss_from(LOSSES[name])
    n_columns = 1 if not loss.of_classes or (len(labels) == 2 and not jointly) else len(labels)
    table = _weights(lines, header["nr_feature"] + (bias >= 0), n_columns)
    intercept = table[-1] * bias if bias >= 0 else np.zeros(table.shape[1])
    coef = table[:-1].T if bias >= 0 else table.T
    info: dict[str, Any] = {"solver": f"LIBLINEAR {name}"}
    settings: dict[str, Any] = {}
    if loss.one_class:
        settings = _told(lines.name, "a one-class machine", "-n", nu=nu)
    elif loss.residual:
        settings = _told(lines.name, "a regression", "-p", epsilon=epsilon)
    objective = Objective(
        loss.name, C, "regularised" if bias > 0 else "none", bias if bias > 0 else 1.0,
        parameters=settings, l1_ratio=_l1_ratio(name),
    )  # fmt: skip
    loss = objective.formula  # refuses a nu or an epsilon that is none
    if loss.one_class:
        return LinearOneClassModel(
            np.ascontiguousarray(coef[0]), float(intercept[0]) - header["rho"],
            replace(objective, C=1.0, bias="free", bias_scale=1.0), UNBOUNDED, "", 0, info=info,
        )  # fmt: skip
    if loss.residual:
        return RegressionModel(
            np.ascontiguousarray(coef[0]), float(intercept[0]), objective, UNCERTIFIED, "", 0,
            info=info,
        )  # fmt: skip
    order = np.argsort(labels, kind="stable")
    if n_columns == 1:
        sign = 1.0 if order[1] == 0 else -1.0  # the second class in order is the positive one
        coef, intercept = sign * coef, sign * intercept
    else:
        coef, intercept = coef[order], intercept[order]
    if len(labels) == 2 and jointly:  # the score of the second class over the first
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    if loss.sigmoid:
        info["calibrators"] = own_probabilities(len(coef))
    return LinearModel(
        coef=np.ascontiguousarray(coef),
        intercept=intercept + 0.0,
        classes=np.asarray(labels, np.float64)[order],
        objective=objective,
        certificates=(UNCERTIFIED,) * (1 if jointly else len(coef)),
        fingerprint="",
        n_rows=0,
        multi_class="crammer_singer" if jointly else "ovr",
        info=info,
    )


def _told(name: str, what: str, option: str, **setting: float | None) -> dict[str, Any]:
    """What the user must say of the training, since the file does not."""
    ((key, value),) = setting.items()
    if value is None:
        raise ModelError(
            f"{name}:1: {what}, whose file does not say the {key} of its training: give it "
            f"({option}), certificates need it"
        )
    return {key: float(value)}


def _header(lines: Lines) -> dict[str, Any]:
    found: dict[str, Any] = {}
    wanted = ("solver_type", "nr_class", "label", "nr_feature", "bias", "rho")
    while True:
        expected = f"one of {', '.join(key for key in wanted if key not in found)} or w"
        key, _, text = lines.next(expected).partition(" ")
        loss = loss_from(LOSSES[found.get("solver_type", "MCSVM_CS")])
        needless = {"label": not loss.of_classes, "rho": not loss.one_class}
        if key == "w" and all(key in found or needless.get(key) for key in wanted):
            return found
        if key not in wanted or key in found or (key == "rho" and not loss.one_class):
            lines.fail(expected, repr(key[:40]))
        found[key] = text.strip()
        if key == "solver_type" and found[key] not in LOSSES:
            lines.fail(f"one of {', '.join(LOSSES)}", repr(text[:40]))
        elif key == "nr_class":
            found[key] = lines.count_in(text, "two classes or more", least=2)
        elif key == "nr_feature":
            found[key] = lines.count_in(text, "a number of features")
        elif key in ("bias", "rho"):
            found[key] = lines.number_in(text, "a number")
        elif key == "label":
            labels = [lines.number_in(word, "integer labels") for word in text.split()]
            if len(labels) != found.get("nr_class") or len(set(labels)) != len(labels):
                lines.fail(f"{found.get('nr_class')} different labels", repr(text[:40]))
            found["labels"] = labels


def _weights(lines: Lines, n_rows: int, n_columns: int) -> NDArray[np.float64]:
    """Collected line by line: what the header claims is not allocated before it is there."""
    what = f"{n_columns} weight{'s' if n_columns > 1 else ''}"
    rows = []
    for _ in range(n_rows):
        words = lines.next(what).split()
        if len(words) != n_columns:
            lines.fail(what, f"{len(words)}")
        rows.append(lines.numbers_in(words))
    if lines.rest.strip():
        lines.number += 1
        lines.fail(f"the end after {n_rows} lines of weights", "more")
    return np.array(rows).reshape(n_rows, n_columns)


def _integer_labels(classes: NDArray[Any]) -> list[int]:
    values = classes.tolist()
    for value in values:
        if isinstance(value, str) or not float(value).is_integer() or abs(value) >= 2**31:
            raise ModelError(f"LIBLINEAR's labels are integers: it cannot hold the class {value!r}")
    return [int(value) for value in values]
