"""ONNX: the decision of a model in operators that every runtime has.

    scores of functions   X W + b, or K(X, S) A + b with the kernel and support vectors of the model
    of pairs of classes   votes, as everywhere: see `bridle.models.deciding`
    label                 classes[scores > 0] or classes[argmax scores]

    input    X              float32, (rows, features)
    outputs  label          (rows,): int64, or strings, or doubles where the classes are neither
             scores         double, (rows,) for two classes, else (rows, classes)
             probabilities  double, (rows, classes), of a model that has them
             prediction     double, (rows,): all that a regression has
    of one class: label, 1 or -1, and scores, not negative where rows belong

All is computed in double precision, as bridle does: the labels agree but where two scores differ
by rounding alone. What a model has and ONNX has not is an error; nothing is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.errors import ModelError
from bridle.files.atomic import StrPath, replacing
from bridle.models.calibration import SigmoidMap, calibrator_from
from bridle.models.deciding import pairs
from bridle.models.kernel import KernelModel
from bridle.models.linear import LinearModel
from bridle.models.one_class import BOUNDARY
from bridle.models.regression import LinearFunction, RegressionModel
from numpy.typing import NDArray

OPSET = 13
NEVER_SURE = 1e-7  # as in bridle.models.calibration.coupled

Value = str | NDArray[Any] | float  # what a node computes, by its name; or a constant


def write(path: StrPath, model: Any) -> None:
    """For onnxruntime."""
    content = build(model).SerializeToString()
    with replacing(path) as file:
        file.write(content)


class Graph:
    """Nodes and constants, as they are added."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, operator: str, *inputs: Value, output: str = "", **attributes: Any) -> str:
        """One more node; the name of what it computes."""
        name = output or f"v{len(self.nodes)}"
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        self.nodes.append(self.onnx.helper.make_node(operator, names, [name], **attributes))
        return name

    def constant(self, value: NDArray[Any] | float) -> str:
        """Its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def cast(self, value: str, kind: str) -> str:
        """To DOUBLE, FLOAT or INT64."""
        return self("Cast", value, to=getattr(self.onnx.TensorProto, kind))


def build(model: Any) -> Any:
    """The model as an onnx.ModelProto."""
    if not isinstance(model, LinearModel | KernelModel | LinearFunction):
        raise ModelError(
            f"models of kind {model.kind!r} do not go to ONNX: classifiers and regressions do"
        )
    try:
        import onnx
        from onnx import checker, helper
    except ImportError:
        raise ModelError("writing ONNX needs onnx: pip install 'bridle[onnx]'") from None
    graph = Graph(onnx)
    outputs = _added(graph, model)
    made = helper.make_model(
        helper.make_graph(
            graph.nodes, "bridle",
            [helper.make_tensor_value_info(
                "X", onnx.TensorProto.FLOAT, ["rows", model.n_features])],
            [helper.make_tensor_value_info(name, *about) for name, about in outputs.items()],
            graph.constants,
        ),
        producer_name="bridle", opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8,
    )  # fmt: skip
    checker.check_model(made)
    return made


def _added(graph: Graph, model: Any) -> dict[str, tuple[int, list[Any]]]:
    """What the model says of rows, whatever it is."""
    if isinstance(model, RegressionModel):
        return add_regression(graph, "X", model)
    return (add_one_class if isinstance(model, LinearFunction) else add_classifier)(
        graph, "X", model
    )


def add_classifier(graph: Graph, rows: str, model: Any) -> dict[str, tuple[int, list[Any]]]:
    """Nodes for all that a classifier says of rows; its outputs, with their types and shapes."""
    types, n_classes = graph.onnx.TensorProto, len(model.classes)
    functions = _function_scores(graph, rows, model)
    outputs: dict[str, tuple[int, list[Any]]] = {}
    if n_classes == 2:
        scores = graph("Squeeze", functions, np.array([1]), output="scores")
        code = graph.cast(graph("Greater", scores, 0.0), "INT64")
    else:
        by_pairs = model.multi_class == "ovo"
        made = _votes(graph, functions, n_classes) if by_pairs else functions
        scores = graph("Identity", made, output="scores")
        equal = by_pairs and not getattr(model, "breaks_ties", True)
        code = graph("ArgMax", graph("Round", scores) if equal else scores, axis=1, keepdims=0)
    labels, label_type = labels_of(model.classes, types)
    graph("Gather", labels, code, output="label")
    outputs["label"] = (label_type, ["rows"])
    outputs["scores"] = (types.DOUBLE, ["rows"] if n_classes == 2 else ["rows", n_classes])
    if "calibrators" in model.info:
        graph("Identity", _probabilities(graph, functions, model), output="probabilities")
        outputs["probabilities"] = (types.DOUBLE, ["rows", n_classes])
    return outputs


def add_regression(graph: Graph, rows: str, model: Any) -> dict[str, tuple[int, list[Any]]]:
    """Nodes for the numbers that a regression predicts."""
    graph("Squeeze", _column(graph, rows, model), np.array([1]), output="prediction")
    return {"prediction": (graph.onnx.TensorProto.DOUBLE, ["rows"])}


def add_one_class(graph: Graph, rows: str, model: Any) -> dict[str, tuple[int, list[Any]]]:
    """Nodes for who belongs."""
    values = graph("Squeeze", _column(graph, rows, model), np.array([1]))
    above = graph("Greater", graph("Abs", values), BOUNDARY * abs(model.intercept))
    scores = graph("Where", above, values, 0.0, output="scores")
    inside = graph("GreaterOrEqual", scores, 0.0)
    graph("Where", inside, np.array([1]), np.array([-1]), output="label")
    types = graph.onnx.TensorProto
    return {"label": (types.INT64, ["rows"]), "scores": (types.DOUBLE, ["rows"])}


def _column(graph: Graph, rows: str, model: Any) -> str:
    """w.x + b of the one function."""
    product = graph("MatMul", graph.cast(rows, "DOUBLE"), model.coef[:, None])
    return graph("Add", product, model.intercept)


def _function_scores(graph: Graph, rows: str, model: Any) -> str:
    """A column for each decision function."""
    doubles = graph.cast(rows, "DOUBLE")
    if isinstance(model, LinearModel):
        return graph("Add", graph("MatMul", doubles, model.coef.T), model.intercept)
    if model.scale is not None:  # divided in single precision, as the support vectors are
        divided = graph.cast(graph("Div", doubles, model.scale), "FLOAT")
        doubles = graph.cast(divided, "DOUBLE")
    support = model.support.toarray() if hasattr(model.support, "toarray") else model.support
    values = _kernel(graph, doubles, np.asarray(support, np.float64), model.kernel)
    return graph("Add", graph("MatMul", values, model.coefficients.T), model.intercept)


def _kernel(graph: Graph, rows: str, support: NDArray[np.float64], kernel: Any) -> str:
    """K(x, s) for all rows and support vectors: the formulas of `bridle.objective.kernels`."""
    product = graph("MatMul", rows, support.T)
    if kernel.name == "linear":
        return product
    if kernel.name == "rbf":
        lengths = graph("ReduceSum", graph("Mul", rows, rows), np.array([1]), keepdims=1)
        both = graph("Add", lengths, np.square(support).sum(axis=1))
        distance = graph("Max", graph("Sub", both, graph("Mul", product, 2.0)), 0.0)
        return graph("Exp", graph("Mul", distance, -float(kernel.gamma)))
    if kernel.name in ("poly", "sigmoid"):
        inner = graph("Add", graph("Mul", product, float(kernel.gamma)), float(kernel.coef0))
        if kernel.name == "poly":
            return graph("Pow", inner, float(kernel.degree))
        return graph("Tanh", inner)
    raise ModelError(f"the kernel {kernel.name!r} does not go to ONNX")


def _votes(graph: Graph, functions: str, n_classes: int) -> str:
    """Of the pairs, and a fraction that orders equal ones: `bridle.models.deciding.votes`."""
    first, second = _sides(n_classes)
    wins = graph.cast(graph("GreaterOrEqual", functions, 0.0), "DOUBLE")
    count = graph(
        "Add", graph("MatMul", wins, first), graph("MatMul", graph("Sub", 1.0, wins), second)
    )
    sums = graph("MatMul", functions, first - second)
    below = graph("Mul", graph("Add", graph("Abs", sums), 1.0), 3.0)
    return graph("Add", count, graph("Div", sums, below))


def _sides(n_classes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Which class each pair is for where its score is positive, and where it is negative."""
    first, second = (np.zeros((len(pairs(n_classes)), n_classes)) for _ in range(2))
    for k, (i, j) in enumerate(pairs(n_classes)):
        first[k, i] = second[k, j] = 1.0
    return first, second


def _probabilities(graph: Graph, functions: str, model: Any) -> str:
    """As `bridle.models.calibration.class_probabilities`."""
    n_classes = len(model.classes)
    if model.multi_class == "multinomial" and n_classes > 2:
        return graph("Softmax", functions, axis=1)
    each = _calibrated(graph, functions, [calibrator_from(e) for e in model.info["calibrators"]])
    if n_classes == 2:
        return graph("Concat", graph("Sub", 1.0, each), each, axis=1)
    if model.multi_class == "ovo":
        return _coupled(graph, each, n_classes)
    total = graph("ReduceSum", each, np.array([1]), keepdims=1)
    some = graph("Greater", total, 0.0)
    return graph("Where", some, graph("Div", each, graph("Where", some, total, 1.0)), 1 / n_classes)


def _calibrated(graph: Graph, functions: str, maps: list[Any]) -> str:
    """A column of probabilities for each column of scores."""
    if all(isinstance(one, SigmoidMap) for one in maps):
        slopes, offsets = (np.array([getattr(m, n) for m in maps]) for n in ("slope", "offset"))
        logit = graph("Add", graph("Mul", functions, slopes), offsets)
        return graph("Div", 1.0, graph("Add", graph("Exp", graph("Neg", logit)), 1.0))
    columns = [
        _interpolated(graph, graph("Gather", functions, np.array([k]), axis=1), one)
        for k, one in enumerate(maps)
    ]
    return columns[0] if len(columns) == 1 else graph("Concat", *columns, axis=1)


def _interpolated(graph: Graph, column: str, steps: Any) -> str:
    """Linear between the knots, constant beyond them: segment j begins with knot j - 1."""
    x, p = np.asarray(steps.scores, np.float64), np.asarray(steps.probabilities, np.float64)
    widths = np.diff(x)
    slopes = np.divide(np.diff(p), widths, out=np.zeros_like(widths), where=widths > 0)
    before = graph("GreaterOrEqual", column, x[None])
    segment = graph("ReduceSum", graph.cast(before, "INT64"), np.array([1]), keepdims=1)
    tables = (np.r_[x[:1], x], np.r_[p[:1], p], np.r_[0.0, slopes, 0.0])
    start, height, slope = (graph("Gather", table, segment) for table in tables)
    return graph("Add", height, graph("Mul", graph("Sub", column, start), slope))


def _coupled(graph: Graph, each: str, n: int) -> str:
    """Pairs' probabilities to classes': `bridle.models.calibration.coupled`.

    Q p + b 1 = 0 with sum p = 1 is p = x / sum x for (Q + 1 1') x = 1, a positive definite system,
    which Gauss and Jordan solve without looking for pivots: x becomes the last column.
    """
    first, second = _sides(n)
    places = np.einsum("ki,kj->kij", first, second).reshape(len(first), n * n)
    other = np.einsum("ki,kj->kij", second, first).reshape(len(first), n * n)
    sure = graph("Max", graph("Min", each, 1 - NEVER_SURE), NEVER_SURE)
    flat = graph(
        "Add", graph("MatMul", sure, places), graph("MatMul", graph("Sub", 1.0, sure), other)
    )
    r = graph("Reshape", flat, np.array([-1, n, n]))
    turned = graph("Transpose", r, perm=[0, 2, 1])
    squares = graph("ReduceSum", graph("Mul", r, r), np.array([1]), keepdims=1)
    Q = graph("Sub", graph("Mul", squares, np.eye(n)), graph("Mul", r, turned))
    ones = graph("Add", graph("Mul", graph("Gather", r, np.array([0]), axis=2), 0.0), 1.0)
    system = graph("Concat", graph("Add", Q, 1.0), ones, axis=2)
    for k in range(n):
        here = np.eye(n)[k][:, None]
        row = graph("Gather", system, np.array([k]), axis=1)
        pivot = graph("Div", row, graph("Gather", row, np.array([k]), axis=2))
        factors = graph("Mul", graph("Gather", system, np.array([k]), axis=2), 1.0 - here)
        rest = graph("Mul", graph("Sub", system, graph("Mul", factors, pivot)), 1.0 - here)
        system = graph("Add", rest, graph("Mul", pivot, here))
    x = graph("Max", graph("Squeeze", graph("Gather", system, np.array([n]), axis=2),
                           np.array([2])), 0.0)  # fmt: skip
    return graph("Div", x, graph("ReduceSum", x, np.array([1]), keepdims=1))


def labels_of(classes: NDArray[Any], types: Any) -> tuple[NDArray[Any], int]:
    """What a runtime is to answer, and its type."""
    values = classes.tolist()
    if all(isinstance(value, str) for value in values):
        return np.array(values, dtype=object), types.STRING
    if all(float(value).is_integer() and abs(value) < 2**62 for value in values):
        return np.array([int(value) for value in values], np.int64), types.INT64
    return np.array(values, np.float64), types.DOUBLE
