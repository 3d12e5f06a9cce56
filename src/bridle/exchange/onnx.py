"""ONNX: the decision of a linear model in operators that every runtime has.

    scores = X W + b,    label = classes[scores > 0] or classes[argmax scores]

    input    X        float32, (rows, features)
    outputs  label    (rows,): int64, or strings, or doubles where the classes are neither
             scores   double, (rows,) for two classes, else (rows, classes)

The product is computed in double precision, as bridle does: the labels agree but where two scores
differ by rounding alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.errors import ModelError
from bridle.files.atomic import StrPath, replacing
from bridle.models.linear import LinearModel
from numpy.typing import NDArray

OPSET = 13


def write(path: StrPath, model: Any) -> None:
    """For onnxruntime."""
    content = build(model).SerializeToString()
    with replacing(path) as file:
        file.write(content)


def build(model: Any) -> Any:
    """The model as an onnx.ModelProto."""
    if not isinstance(model, LinearModel):
        raise ModelError(f"only linear models go to ONNX, this one is of kind {model.kind!r}")
    if model.multi_class == "ovo":
        raise ModelError("a model of pairs of classes decides by votes, which do not go to ONNX")
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError:
        raise ModelError("writing ONNX needs onnx: pip install 'bridle[onnx]'") from None

    labels, label_type = _labels(model.classes, TensorProto)
    two = len(model.coef) == 1
    weights = model.coef[0] if two else model.coef.T
    constants = {
        "weights": weights, "intercept": model.intercept[0] if two else model.intercept,
        "classes": labels,
    }  # fmt: skip
    nodes = [
        helper.make_node("Cast", ["X"], ["doubles"], to=TensorProto.DOUBLE),
        helper.make_node("MatMul", ["doubles", "weights"], ["product"]),
        helper.make_node("Add", ["product", "intercept"], ["scores"]),
    ]
    if two:
        constants["zero"] = np.float64(0.0)
        nodes += [
            helper.make_node("Greater", ["scores", "zero"], ["positive"]),
            helper.make_node("Cast", ["positive"], ["code"], to=TensorProto.INT64),
        ]
    else:
        nodes.append(helper.make_node("ArgMax", ["scores"], ["code"], axis=1, keepdims=0))
    nodes.append(helper.make_node("Gather", ["classes", "code"], ["label"]))
    shape: list[str | int | None] = ["rows"] if two else ["rows", len(model.classes)]
    graph = helper.make_graph(
        nodes, "bridle",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["rows", model.n_features])],
        [
            helper.make_tensor_value_info("label", label_type, ["rows"]),
            helper.make_tensor_value_info("scores", TensorProto.DOUBLE, shape),
        ],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )  # fmt: skip
    made = helper.make_model(
        graph, producer_name="bridle", opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
    )
    checker.check_model(made)
    return made


def _labels(classes: NDArray[Any], types: Any) -> tuple[NDArray[Any], int]:
    values = classes.tolist()
    if all(isinstance(value, str) for value in values):
        return np.array(values, dtype=object), types.STRING
    if all(float(value).is_integer() and abs(value) < 2**62 for value in values):
        return np.array([int(value) for value in values], np.int64), types.INT64
    return np.array(values, np.float64), types.DOUBLE
