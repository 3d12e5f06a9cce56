"""What a way of learning cannot have, by the name of the parameter, and why: the only such table.

The command line's options have the names of the estimators' parameters, so that both ask here.
A parameter at its default asks for nothing, and is never refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NEEDS_ROWS = "needs the rows in memory"
_FOLDS = "LinearSVCCV chooses C there, from Python"
_COMPARES = "a kernel machine compares rows of different workers"
_STREAM_ONLY = "only a stream, DATA = -, has it"
_TABLES = "the files are .arrow ones, which have features and labels"
_OWN_WEIGHTS = "the weights are a column of the .arrow files"
_SEEN_ONCE = "each row is seen once, and then forgotten"
_LINEAR = "is for linear machines"
_OF_CLASSES = "is for classes, not for numbers to predict"
_ON_PROCESSOR = "only rows in memory go to a GPU"
_CHECKPOINTS = (
    "the checkpoints of a cluster are for workers that die: written with every certificate, and "
    "gone with the run"
)


@dataclass(frozen=True)
class Way:
    """A way of learning, what to say of what it has not, and the reasons by parameter."""

    says: str  # with {name} and {why}
    reasons: Mapping[str, str]
    command: str | None = None  # what the command line says, where that differs

    def refusal(self, name: str, shown: str) -> str | None:
        """The sentence about a parameter, shown in this way; None if the way has it."""
        why = self.reasons.get(name)
        return None if why is None else self.says.format(name=shown, why=why)

    def command_refusal(self, name: str, option: str) -> str | None:
        """The same about an option."""
        why = self.reasons.get(name)
        return None if why is None else (self.command or self.says).format(name=option, why=why)


def _same(reason: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, reason)


_OF_STREAMS = _same(_STREAM_ONLY, "rate", "classes", "block")
_OF_KERNELS = ("gamma", "degree", "coef0", "cache_size")

WAYS: dict[str, Way] = {
    "disk": Way(
        "{name} {why}; these are on disk",
        _same(
            _NEEDS_ROWS, "penalty",
            "multi_class", "class_weight", "warm_start", "store_dual", "probability",
            "sparse_coef", "early_stopping", "scale", "folds", "search_c", "kernel", *_OF_KERNELS,
            "epochs_a_priori",
        )
        | _OF_STREAMS | _same(_TABLES, "label_column", "hash_bits")
        | {"row_weights": _OWN_WEIGHTS, "device": _ON_PROCESSOR},
        "--memory has no {name}: {why}",
    ),
    "cluster": Way(
        "{name} is not available on a cluster: {why}",
        {
            "multi_class": "the classes are solved one against the rest",
            "penalty": "coordinate descent needs a copy of the columns of all rows",
            "scale": "no worker knows the others' largest values: scale the rows before they are "
            "converted",
            "sparse_coef": "the weights arrive dense; call `sparsify()` after the fit",
            "scoring": "the rows held out stay on their workers, which count hits",
            "cv": "folds are of every worker's rows: give their number",
            "groups": "folds are of every worker's rows, whatever their groups",
            "epochs_a_priori": "it looks at rows in memory",
            "threads": "a worker has the threads that Dask gives it",
            "device": _ON_PROCESSOR,
        }
        | _same(_FOLDS, "folds", "search_c")
        | {"row_weights": _OWN_WEIGHTS} | _same(_COMPARES, "kernel", *_OF_KERNELS)
        | _OF_STREAMS | _same(_TABLES, "label_column", "hash_bits")
        | _same(_CHECKPOINTS, "every", "resume"),
        "--dask has no {name}: {why}",
    ),
    "cuda": Way(
        "{name} {why}; these are on a GPU",
        _same(_NEEDS_ROWS, "scale", "early_stopping", "probability", "validation"),
    ),
    "stream": Way(
        "a stream is learned without {name}: {why}",
        _same(
            _SEEN_ONCE, "gap", "stops", "solver", "settings", "keep", "penalty", "bias_scale",
            "class_weight", "multi_class", "scale", "probability", "folds", "search_c", "kernel",
            *_OF_KERNELS, "max_seconds", "max_epochs", "max_steps", "label_column", "hash_bits",
            "threads", "seed", "test", "proof", "trace", "memory", "dask", "checkpoint", "every",
            "resume", "row_weights", "validation", "epochs_a_priori",
        )
        | {"C": "it has no number of rows: give --lam", "device": _ON_PROCESSOR},
    ),
    "file": Way("{name}: {why}", _OF_STREAMS),
    "kernel": Way(
        "{name} {why}",
        _same(
            _LINEAR, "proof", "folds", "search_c", "checkpoint", "penalty", "validation",
            "epochs_a_priori",
        ),
    ),
    "kernel_machine": Way("{name} {why}", _same(
        "is for linear machines: kernel machines of classes have the hinge", "loss",
    )),
    "kernel_function": Way("{name} {why}", _same(
        "is not there for kernel machines of numbers or of one class", "scale", "validation",
        "memory", "dask",
    )),
    "targets": Way(
        "{name} {why}",
        _same(_OF_CLASSES, "multi_class", "class_weight", "probability", "classes")
        | _same("is not there yet for numbers to predict", "epochs_a_priori", "penalty"),
    ),
    "one_class": Way(
        "{name} {why}",
        _same("is for rows with labels, which one class has not", "multi_class", "class_weight",
              "probability", "classes", "penalty", "folds", "search_c", "epochs_a_priori",
              "validation")
        | _same("is not there for one class, whose weights would only be longer: nu takes its "
                "place, --loss one_class:nu=0.1", "C", "lam")
        | {"dask": "is not there for one class: its dual variables begin with a share of every "
           "row, and the parts of a cluster begin with none"},
    ),
    "crammer_singer": Way(
        '{name} needs one dual variable for each row, which multi_class="crammer_singer" does not '
        "have{why}",
        _same("", "store_dual", "warm_start", "proof"),
    ),
    "validation": Way(
        "--folds and --search-c write no model: leave out {name}{why}",
        _same(
            "", "probability", "proof", "test", "trace", "checkpoint", "validation",
            "epochs_a_priori",
        )
        | {"stops": ", and give --gap, which every fold is to reach"},
    ),
    "pairs": Way("{name} is for classes that are solved one against the rest{why}",
                 _same("", "checkpoint", "epochs_a_priori")),
    "penalised": Way("{name} is for --penalty l2{why}", _same("", "epochs_a_priori", "checkpoint")),
    "unmixed": Way("{name} is the mix of --penalty elasticnet{why}", _same("", "l1_ratio")),
    "once": Way("only a run with --checkpoint has {name}{why}", _same("", "every", "resume")),
}  # fmt: skip


def refuse(way: str, given: Mapping[str, Any]) -> None:
    """ValueError that names the first of these parameters that the way has not, and says why."""
    for name, value in given.items():
        said = WAYS[way].refusal(name, f"{name}={value!r}")
        if said is not None:
            raise ValueError(said)
