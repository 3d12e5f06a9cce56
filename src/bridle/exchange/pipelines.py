"""Pipelines of scikit-learn with bridle's classifiers and regressions in them, for skl2onnx.

    from bridle.exchange.pipelines import register

    register(bridle.LinearSVC, bridle.SVC)
    made = skl2onnx.to_onnx(pipeline, X[:1], options={"zipmap": False})

The outputs are skl2onnx's own: the prediction, or the label, and the probabilities of a model that
has them, else its scores, in single precision. Without a pipeline, `export_model` gives all in
double precision.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from bridle.errors import ModelError
from bridle.exchange.onnx import OPSET, Graph, add_classifier, add_regression, labels_of
from bridle.models.storage import as_model


def register(*classes: type) -> None:
    """Let skl2onnx know these estimators of bridle's."""
    try:
        skl2onnx = importlib.import_module("skl2onnx")
    except ImportError:
        raise ModelError("pipelines need skl2onnx: pip install skl2onnx") from None
    from sklearn.base import ClassifierMixin

    for cls in classes:
        # With these options skl2onnx looks for classes, which a regression does not have.
        options = {"zipmap": [True, False, "columns"], "nocl": [True, False]}
        skl2onnx.update_registered_converter(
            cls, f"Bridle{cls.__name__}", _shapes, _convert,
            options=options if issubclass(cls, ClassifierMixin) else None,
        )  # fmt: skip


def _shapes(operator: Any) -> None:
    from onnx import TensorProto

    types = importlib.import_module("skl2onnx.common.data_types")
    model, n_rows = as_model(operator.raw_operator), operator.inputs[0].get_first_dimension()
    if model.names is None:  # of a regression
        operator.outputs[0].type = types.FloatTensorType([n_rows, 1])
        return
    kinds: dict[Any, Any] = {
        TensorProto.STRING: types.StringTensorType, TensorProto.INT64: types.Int64TensorType,
    }  # fmt: skip
    _, kind = labels_of(model.classes, TensorProto)
    if kind not in kinds:
        raise ModelError("skl2onnx takes integers or strings as labels")
    operator.outputs[0].type = kinds[kind]([n_rows])
    operator.outputs[1].type = types.FloatTensorType([n_rows, len(model.classes)])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    import onnx

    model = as_model(operator.raw_operator)
    model = model.dense() if model.kind == "linear" else model
    graph = Graph(onnx)
    if model.names is None:
        add_regression(graph, "rows", model)
        column = graph("Unsqueeze", "prediction", np.array([1]))
        graph("Cast", column, output="single", to=onnx.TensorProto.FLOAT)
        _add(scope, operator, container, graph, {"single": operator.outputs[0].full_name})
        return
    outputs = add_classifier(graph, "rows", model)
    second = "probabilities"
    if second not in outputs:
        second = "scores"
        if len(model.classes) == 2:  # one number: for the second class, and against the first
            column = graph("Unsqueeze", "scores", np.array([1]))
            second = graph("Concat", graph("Neg", column), column, axis=1)
    graph("Cast", second, output="single", to=onnx.TensorProto.FLOAT)
    named = {"label": operator.outputs[0].full_name, "single": operator.outputs[1].full_name}
    _add(scope, operator, container, graph, named)


def _add(scope: Any, operator: Any, container: Any, graph: Graph, outputs: dict[str, str]) -> None:
    """The graph, under names that the pipeline does not have yet."""
    import onnx

    names = {"rows": operator.inputs[0].full_name, **outputs}
    for constant in graph.constants:
        names[constant.name] = scope.get_unique_variable_name(f"bridle_{constant.name}")
        values = onnx.numpy_helper.to_array(constant).ravel().tolist()
        container.add_initializer(
            names[constant.name], constant.data_type, list(constant.dims), values
        )
    for node in graph.nodes:
        for name in node.output:
            names.setdefault(name, scope.get_unique_variable_name(f"bridle_{name}"))
        given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        container.add_node(
            node.op_type, [names[name] for name in node.input],
            [names[name] for name in node.output], op_version=OPSET,
            name=scope.get_unique_operator_name("Bridle"), **given,
        )  # fmt: skip
