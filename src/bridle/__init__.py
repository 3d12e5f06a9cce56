"""bridle: support vector machines at scale, with a proof of how good the answer is.

Names are loaded when they are used: `import bridle` loads neither scikit-learn nor scipy. A new one
is one line in `_HOME`, and one in __init__.pyi, for type checkers and editors.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"


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
    "Certificate": "bridle.objective.certificate",
    "Record": "bridle.objective.certificate",
    "Trace": "bridle.objective.certificate",
    "Hinge": "bridle.objective.losses",
    "Loss": "bridle.objective.losses",
    "Problem": "bridle.problems.base",
    "SquaredHinge": "bridle.objective.losses",
    "PerceptronLoss": "bridle.objective.losses",
    "EpsilonInsensitive": "bridle.objective.losses",
    "Huber": "bridle.objective.losses",
    "Logistic": "bridle.objective.losses",
    "OneClass": "bridle.objective.losses",
    "Pinball": "bridle.objective.losses",
    "SmoothedHinge": "bridle.objective.losses",
    "Squared": "bridle.objective.losses",
    "SquaredEpsilonInsensitive": "bridle.objective.losses",
    "check_loss": "bridle.objective.losses.checking",
    "LossError": "bridle.errors",
    "LinearProblem": "bridle.problems.linear",
    "PenalisedProblem": "bridle.problems.penalised",
    "C_min": "bridle.fitting.sparse_path",
    "l1_path": "bridle.fitting.sparse_path",
    "lambda_max": "bridle.fitting.sparse_path",
    "MultinomialProblem": "bridle.problems.multinomial",
    "StreamedProblem": "bridle.problems.homes",
    "StoredRows": "bridle.rows.disk.stored",
    "Checkpoint": "bridle.solving.checkpoint",
    "CheckpointError": "bridle.solving.checkpoint",
    "Kernel": "bridle.objective.kernels.base",
    "KernelProblem": "bridle.problems.kernel",
    "Expansion": "bridle.problems.kernel",
    "lam_to_C": "bridle.objective.scaling",
    "C_to_lam": "bridle.objective.scaling",
    "solve": "bridle.solving.loop",
    "Solution": "bridle.solving.solution",
    "Status": "bridle.solving.stopping",
    "Gap": "bridle.solving.stopping",
    "Epochs": "bridle.solving.stopping",
    "Steps": "bridle.solving.stopping",
    "Seconds": "bridle.solving.stopping",
    "Suboptimality": "bridle.solving.stopping",
    "HeldOutLoss": "bridle.solving.stopping",
    "ValidationLoss": "bridle.solving.stopping",
    "CuttingPlaneModel": "bridle.solvers.shared.cutting_plane_model",
    "certify": "bridle.fitting.certification",
    "compare": "bridle.study.comparison",
    "Comparison": "bridle.study.comparison",
    "path": "bridle.fitting.c_path",
    "Path": "bridle.fitting.c_path",
    "certify_weights": "bridle.fitting.certification",
    "Iterate": "bridle.objective.point",
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
    "Interruption": "bridle.errors",
    "StructuredProblem": "bridle.structured.problem",
    "check_oracle": "bridle.structured.checking",
    "RankingLoss": "bridle.structured.ranking.base",
    "RankingProblem": "bridle.structured.ranking.problem",
    "Tree": "bridle.data.trees",
    "read_trees": "bridle.data.trees",
    "Grammar": "bridle.structured.grammar",
    "TreeOracle": "bridle.structured.tree",
    "Ocas": "bridle.solvers.ocas",
    "QuadraticProgramme": "bridle.solvers.qp",
    "Newton": "bridle.solvers.newton",
    "ConjugateGradients": "bridle.solvers.cg",
    "SvmPerf": "bridle.solvers.svmperf",
    "Smo": "bridle.solvers.smo",
    "Nystrom": "bridle.problems.approximation",
    "RandomFeatures": "bridle.problems.approximation",
    "BudgetedPegasos": "bridle.solvers.budgeted_pegasos",
    "KernelPegasos": "bridle.solvers.kernel_stochastic",
    "KernelSgd": "bridle.solvers.kernel_stochastic",
    "KernelNorma": "bridle.solvers.kernel_stochastic",
    "SVC": "bridle.estimators",
    "SVR": "bridle.estimators",
    "LinearOneClassSVM": "bridle.estimators",
    "OneClassSVM": "bridle.estimators",
    "GradientDescent": "bridle.solvers.gd",
    "StochasticGradientDescent": "bridle.solvers.sgd",
    "SvmSgd": "bridle.solvers.svmsgd",
    "AveragedSgd": "bridle.solvers.asgd",
    "SgdQn": "bridle.solvers.sgd_qn",
    "SgdR": "bridle.solvers.sgd_r",
    "SgdS": "bridle.solvers.sgd_s",
    "SgdM": "bridle.solvers.sgd_m",
    "Perceptron": "bridle.solvers.perceptron",
    "BatchPerceptron": "bridle.solvers.batch_perceptron",
    "MarginPerceptron": "bridle.solvers.margin_perceptron",
    "MarginPerceptronUnlearning": "bridle.solvers.mpu",
    "Norma": "bridle.solvers.norma",
    "calibrate_rate": "bridle.solvers.shared.rate_ladder",
    "check_gradient": "bridle.study.practice",
    "epochs_a_priori": "bridle.study.practice",
    "margin_report": "bridle.study.practice",
    "MarginReport": "bridle.study.practice",
    "InteriorPoint": "bridle.solvers.interior_point",
    "GapWarning": "bridle.estimators",
    "LinearSVC": "bridle.estimators",
    "DaskRows": "bridle.rows.cluster.dask_rows",
    "DistributedProblem": "bridle.problems.homes",
    "Cocoa": "bridle.solvers.cocoa",
    "OnlineSVC": "bridle.estimators",
    "OnlineSVM": "bridle.fitting.online",
    "LinearSVCCV": "bridle.estimators",
    "LogisticRegression": "bridle.estimators",
    "LogisticRegressionCV": "bridle.estimators",
    "LinearSVR": "bridle.estimators",
    "QuantileRegressor": "bridle.estimators",
    "Ridge": "bridle.estimators",
    "fit_regression": "bridle.fitting.regression",
    "RegressionModel": "bridle.models.regression",
    "load_model": "bridle.models.storage",
    "save_model": "bridle.models.storage",
    "LinearModel": "bridle.models.linear",
    "ModelError": "bridle.errors",
    "export_model": "bridle.exchange",
    "import_model": "bridle.exchange",
    "to_sklearn": "bridle.exchange",
    "from_sklearn": "bridle.exchange",
    "solve_one_vs_rest": "bridle.fitting.multiclass",
    "solve_one_vs_one": "bridle.fitting.multiclass",
    "solve_crammer_singer": "bridle.fitting.multiclass",
    "solve_multiclass": "bridle.fitting.multiclass",
    "certify_model": "bridle.fitting.certification",
    "make_report": "bridle.study.report",
    "write_report": "bridle.study.report",
    "plot_trace": "bridle.study.plots",
    "plot_boundary": "bridle.study.plots",
    "ProgressBar": "bridle.study.progress",
    "explain": "bridle.study.explanation",
    "Explanation": "bridle.study.explanation",
    "plot_convergence": "bridle.study.plots",
}

# Modules that are public by these names, wherever they stand.
_MODULES = {
    "data": "bridle.data",
    "estimators": "bridle.estimators",
    "metrics": "bridle.objective.metrics",
    "plot": "bridle.study.plots",
    "solvers": "bridle.solvers",
    "structured": "bridle.structured",
}

__all__ = ["__version__"]
__all__ += list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'bridle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
