"""bridle: support vector machines at scale, with a proof of how good the answer is.

Names are loaded when they are used: `import bridle` loads neither scikit-learn nor scipy.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

__version__ = "0.1.0"


def _check_core() -> None:
    """A core that was built from other sources than the Python beside it fails in odd ways."""
    from bridle import _core

    found = getattr(_core, "version", "older")
    if found != __version__:
        raise ImportError(
            f"the compiled core of bridle is of version {found}, but the package of {__version__}: "
            f"rebuild or install it (`pip install .` in the source folder); it is {_core.__file__}"
        )


_check_core()

_HOME = {
    "Certificate": "bridle.certificate",
    "Record": "bridle.certificate",
    "Trace": "bridle.certificate",
    "Hinge": "bridle.losses",
    "SquaredHinge": "bridle.losses",
    "PerceptronLoss": "bridle.losses",
    "LinearProblem": "bridle.problem",
    "StreamedProblem": "bridle.streamed_problem",
    "StoredRows": "bridle.stored",
    "Checkpoint": "bridle.checkpoint",
    "CheckpointError": "bridle.checkpoint",
    "KernelProblem": "bridle.kernel_problem",
    "Expansion": "bridle.kernel_problem",
    "lam_to_C": "bridle.problem",
    "C_to_lam": "bridle.problem",
    "solve": "bridle.solve",
    "Solution": "bridle.solve",
    "Status": "bridle.stopping",
    "Gap": "bridle.stopping",
    "Epochs": "bridle.stopping",
    "Steps": "bridle.stopping",
    "Seconds": "bridle.stopping",
    "HeldOutLoss": "bridle.stopping",
    "ValidationLoss": "bridle.stopping",
    "CuttingPlaneModel": "bridle.cutting_plane",
    "certify": "bridle.certify",
    "compare": "bridle.compare",
    "Comparison": "bridle.compare",
    "path": "bridle.path",
    "Path": "bridle.path",
    "certify_weights": "bridle.certify",
    "Iterate": "bridle.solvers.base",
    "Solver": "bridle.solvers.base",
    "DualCoordinateDescent": "bridle.solvers.dcd",
    "Pegasos": "bridle.solvers.pegasos",
    "BlockFrankWolfe": "bridle.solvers.bcfw",
    "NSlack": "bridle.solvers.n_slack",
    "OneSlack": "bridle.solvers.one_slack",
    "StructuredSubgradient": "bridle.solvers.structured_subgradient",
    "ChainProblem": "bridle.structured.chain",
    "ChainSVM": "bridle.estimators",
    "MulticlassSVC": "bridle.estimators",
    "StructuredSVM": "bridle.estimators",
    "TreeSVM": "bridle.estimators",
    "MultilabelSVC": "bridle.estimators",
    "MultilabelOracle": "bridle.structured.multilabel",
    "RankSVM": "bridle.estimators",
    "MultivariateSVC": "bridle.estimators",
    "Oracle": "bridle.structured.oracle",
    "OracleError": "bridle.errors",
    "StructuredProblem": "bridle.structured.problem",
    "check_oracle": "bridle.structured.oracle",
    "RankingProblem": "bridle.structured.ranking",
    "Tree": "bridle.structured.trees",
    "read_trees": "bridle.structured.trees",
    "Grammar": "bridle.structured.grammar",
    "TreeOracle": "bridle.structured.grammar",
    "Ocas": "bridle.solvers.ocas",
    "QuadraticProgramme": "bridle.solvers.qp",
    "Newton": "bridle.solvers.newton",
    "ConjugateGradients": "bridle.solvers.cg",
    "SvmPerf": "bridle.solvers.svmperf",
    "Smo": "bridle.solvers.smo",
    "Nystrom": "bridle.approximation",
    "RandomFeatures": "bridle.approximation",
    "BudgetedPegasos": "bridle.solvers.budgeted_pegasos",
    "KernelPegasos": "bridle.solvers.kernel_stochastic",
    "KernelSgd": "bridle.solvers.kernel_stochastic",
    "KernelNorma": "bridle.solvers.kernel_stochastic",
    "SVC": "bridle.estimators",
    "GradientDescent": "bridle.solvers.gd",
    "StochasticGradientDescent": "bridle.solvers.sgd",
    "SvmSgd": "bridle.solvers.svmsgd",
    "AveragedSgd": "bridle.solvers.asgd",
    "SgdQn": "bridle.solvers.sgd_qn",
    "SgdR": "bridle.solvers.sgd_r",
    "SgdS": "bridle.solvers.sgd_s",
    "SgdM": "bridle.solvers.sgd_m",
    "Perceptron": "bridle.solvers.perceptron",
    "MarginPerceptron": "bridle.solvers.margin_perceptron",
    "MarginPerceptronUnlearning": "bridle.solvers.mpu",
    "Norma": "bridle.solvers.norma",
    "calibrate_rate": "bridle.practice",
    "check_gradient": "bridle.practice",
    "epochs_a_priori": "bridle.practice",
    "margin_report": "bridle.practice",
    "MarginReport": "bridle.practice",
    "InteriorPoint": "bridle.solvers.interior_point",
    "GapWarning": "bridle.estimators",
    "LinearSVC": "bridle.estimators",
    "DaskRows": "bridle.distributed.cluster",
    "DistributedProblem": "bridle.distributed.problem",
    "Cocoa": "bridle.solvers.cocoa",
    "OnlineSVC": "bridle.estimators",
    "OnlineSVM": "bridle.online",
    "LinearSVCCV": "bridle.estimators",
    "load_model": "bridle.model_io",
    "save_model": "bridle.model_io",
    "LinearModel": "bridle.model_io",
    "ModelError": "bridle.model_io",
    "export_model": "bridle.exchange",
    "import_model": "bridle.exchange",
    "to_sklearn": "bridle.exchange",
    "from_sklearn": "bridle.exchange",
    "solve_one_vs_rest": "bridle.ovr",
    "solve_one_vs_one": "bridle.ovo",
    "solve_crammer_singer": "bridle.crammer_singer",
    "solve_multiclass": "bridle.multiclass",
    "certify_model": "bridle.certify",
    "make_report": "bridle.report",
    "write_report": "bridle.report",
    "plot_trace": "bridle.plot",
    "plot_boundary": "bridle.plot",
    "ProgressBar": "bridle.progress",
    "explain": "bridle.explain",
    "Explanation": "bridle.explain",
    "plot_convergence": "bridle.plot",
}

__all__ = ["__version__"]
__all__ += list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in ("data", "metrics", "solvers", "structured", "estimators", "plot"):
        return importlib.import_module(f"bridle.{name}")
    raise AttributeError(f"module 'bridle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(types.ModuleType):
    """Keeps `bridle.solve` the function, whoever imports the module `bridle.solve` and when."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOME and isinstance(value, types.ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
