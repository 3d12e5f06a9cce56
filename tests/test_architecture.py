"""The house: what stands where, who may call whom, and the names that the public may rely on."""

from __future__ import annotations

import ast
import collections
import importlib
import re
import subprocess
import sys
from pathlib import Path

import bridle
import pytest

HOUSE = Path(bridle.__file__).parent
ROOT = Path(__file__).parents[1]
FLOORS = (
    "files", "matrix", "objective", "data", "rows", "problems", "structured", "solvers", "solving",
    "models", "fitting", "exchange", "study", "estimators", "cli",
)  # fmt: skip

# Which floors may call which part of the compiled core. (Rng and the number of processors are
# everybody's.) Rows call steps for block ascent, the repair of dual points.
CALLERS = {
    "matrix": {"matrix", "rows"},
    "rows": {"rows"},
    "kernels": {"objective", "rows", "problems"},
    "steps": {"rows", "solvers"},
    "sums": {"objective"},
    "structured": {"structured"},
    "text": {"data"},
    "compact": {"data"},
}

# Public names of version 0.1.0; none may go.
PUBLIC = """
    AveragedSgd BlockFrankWolfe BudgetedPegasos C_to_lam Certificate ChainProblem ChainSVM
    Checkpoint CheckpointError Cocoa Comparison ConjugateGradients CuttingPlaneModel DaskRows
    DistributedProblem DualCoordinateDescent Epochs Expansion Explanation Gap GapWarning
    GradientDescent Grammar HeldOutLoss Hinge InteriorPoint Iterate KernelNorma KernelPegasos
    KernelProblem KernelSgd LinearModel LinearProblem LinearSVC LinearSVCCV MarginPerceptron
    MarginPerceptronUnlearning MarginReport ModelError MulticlassSVC MultilabelOracle
    MultilabelSVC MultivariateSVC NSlack Newton Norma Nystrom Ocas OneSlack OnlineSVC OnlineSVM
    Oracle OracleError Path Pegasos Perceptron PerceptronLoss ProgressBar QuadraticProgramme
    RandomFeatures RankSVM RankingProblem Record SVC Seconds SgdM SgdQn SgdR SgdS Smo Solution
    Solver SquaredHinge Status Steps StochasticGradientDescent StoredRows StreamedProblem
    StructuredProblem StructuredSVM StructuredSubgradient SvmPerf SvmSgd Trace Tree TreeOracle
    TreeSVM ValidationLoss __version__ calibrate_rate certify certify_model certify_weights
    check_gradient check_oracle compare epochs_a_priori explain export_model from_sklearn
    import_model lam_to_C load_model make_report margin_report path plot_boundary
    plot_convergence plot_trace read_trees save_model solve solve_crammer_singer
    solve_multiclass solve_one_vs_one solve_one_vs_rest to_sklearn write_report
""".split()  # noqa: SIM905


def modules():
    for path in sorted(HOUSE.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def test_only_floors_and_the_door_stand_in_the_house():
    loose = {path.stem for path in HOUSE.glob("*.py")}
    assert loose == {"__init__", "errors"}
    assert {path.parent.name for path in HOUSE.glob("*/__init__.py")} == set(FLOORS)


def test_each_floor_says_what_it_is_in_one_line():
    for floor in FLOORS:
        text = ast.get_docstring(ast.parse((HOUSE / floor / "__init__.py").read_text()))
        assert text, floor
        assert len(text.splitlines()[0]) <= 100


def core_parts(tree):
    """The submodules of `_core` that a module uses, as _core.part.name or by importing them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            inner = node.value
            if isinstance(inner.value, ast.Name) and inner.value.id == "_core":
                yield inner.attr
        if isinstance(node, ast.ImportFrom) and node.module and "_core" in node.module.split("."):
            rest = node.module.split("_core", 1)[1].strip(".")
            yield from [rest] if rest else [alias.name for alias in node.names]


def test_the_compiled_core_is_called_from_its_floors_alone():
    wrong = []
    for path, tree in modules():
        floor = path.relative_to(HOUSE).parts[0]
        for part in core_parts(tree):
            if part in CALLERS and floor not in CALLERS[part]:
                wrong.append(f"{path.relative_to(HOUSE)} calls _core.{part}")
    assert not wrong


def test_scikit_learn_is_imported_at_the_top_by_estimators_alone():
    for path, tree in modules():
        floor = path.relative_to(HOUSE).parts[0]
        top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [a.name for n in top if isinstance(n, ast.Import) for a in n.names]
        names += [n.module or "" for n in top if isinstance(n, ast.ImportFrom)]
        assert floor == "estimators" or not any(name.startswith("sklearn") for name in names), path


def test_the_public_face_is_used_below_the_faces_where_it_is_listed():
    """What is floors above is found through `import bridle`; __version__ is everybody's."""
    used = set()
    for path, tree in modules():
        for node in ast.walk(tree):
            plain = isinstance(node, ast.Import) and any(a.name == "bridle" for a in node.names)
            names = (
                node.names if isinstance(node, ast.ImportFrom) and node.module == "bridle" else []
            )
            if plain or {alias.name for alias in names} - {"_core", "__version__"}:
                used.add(path.relative_to(HOUSE).as_posix())
    assert used - {"cli/__init__.py"} == {"objective/certificate.py", "models/linear.py"}


def test_no_module_is_named_like_a_public_function():
    functions = {n for n in bridle.__all__ if n.islower() and callable(getattr(bridle, n))}
    for path, _ in modules():
        if path.parent == HOUSE or path.parent.name != "cli":  # a command is named for what it does
            assert path.stem not in functions, path


def test_no_problem_is_told_apart_by_a_word():
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "kind":
                assert "problem" not in ast.dump(node.value), path


def test_no_command_is_long():
    for path, tree in modules():
        for node in ast.walk(tree):
            if path.parent.name == "cli" and isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 60, f"{path.name}: {node.name}"


def test_one_class_of_a_name():
    found = collections.defaultdict(set)
    for path, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(str(path.relative_to(HOUSE)))
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_stay(name):
    assert getattr(bridle, name) is not None
    assert name in dir(bridle)


@pytest.mark.parametrize("name", ["data", "metrics", "plot", "solvers", "structured", "estimators"])
def test_public_modules_stay(name):
    assert importlib.import_module(getattr(bridle, name).__name__)


def test_importing_bridle_loads_neither_scikit_learn_nor_scipy():
    code = "import sys, bridle; print(*{'sklearn', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def walk():
    """The rooms of one row, from the table in docs/design.md."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = text.split("## The walk of one row")[1].split("## ")[0]
    return re.findall(r"^\| `([\w/]+\.[hp]\w+)` \|", table, flags=re.M)


def test_the_walk_of_one_row_is_as_the_design_says(tmp_path):
    rooms = walk()
    assert 15 <= len(rooms) <= 25
    text = "".join(f"{1 if i % 3 else -1} {i % 7 + 1}:1 {i % 5 + 9}:0.5\n" for i in range(300))
    (tmp_path / "rows.svm").write_text(text)
    code = f"""
import sys
from bridle.cli import main
seen = set()
sys.setprofile(lambda frame, event, argument: seen.add(frame.f_code.co_filename))
main(["train", r"{tmp_path / "rows.svm"}", "--quiet"], standalone_mode=False)
print(*seen, sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seen = {Path(name).resolve() for name in done.stdout.splitlines()}
    small = {"solvers/dcd.py", "solvers/shared/gap_estimates.py"}  # these rows are too few for dcd
    for room in rooms:
        if room.startswith("core/"):
            assert (ROOT / room).exists(), room
        elif room not in small:
            assert (HOUSE / room).resolve() in seen, room
        else:
            assert (HOUSE / room).exists(), room


COMMANDS = """
train rows.svm m
predict rows.svm m p.txt
certify rows.svm m
convert rows.svm rows.arrow
train rows.arrow disk.m --memory 2G
path rows.svm --c-min 0.1 --c-max 1 --gap 0.05
compare rows.svm --solvers dcd,pegasos --gap 0.1 --picture c.png
report rows.svm -o report.html --folds 2
export m m.liblinear
import m.liblinear again.m -c 1
train rows.svm k.m --kernel rbf
train rows.svm --folds 2
train - stream.m --lam 1e-3
train rows.svm prob.m --probability platt
rank train queries.svm ranker
rank predict queries.svm ranker ranks.txt
rank eval queries.svm ranker
tag train tags.txt tagger
tag predict tags.txt tagger tagged.txt
tag eval tags.txt tagger
demo --rows 500 --gap 0.1 --picture d.png
"""


def test_every_command_runs_without_scikit_learn(tmp_path):
    """All but the exchange of estimators with it."""
    rows = [f"{1 if i % 3 else -1} {i % 7 + 1}:1 {i % 5 + 9}:0.5" for i in range(120)]
    (tmp_path / "rows.svm").write_text("\n".join(rows) + "\n")
    queries = [f"{i % 3} qid:{i // 10} {i % 7 + 1}:1 9:{i % 4}" for i in range(60)]
    (tmp_path / "queries.svm").write_text("\n".join(queries) + "\n")
    (tmp_path / "tags.txt").write_text("the DT B-NP\ncat NN I-NP\nruns VB B-VP\n\n" * 6)
    code = """
import shlex, sys
sys.modules["sklearn"] = None  # importing it fails
from bridle.cli import main
from click.testing import CliRunner
for line in sys.stdin.read().strip().splitlines():
    stream = open("rows.svm").read() if " - " in line else None
    done = CliRunner().invoke(main, shlex.split(line), input=stream)
    print(done.exit_code, line, "" if done.exit_code in (0, 3) else done.output)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=COMMANDS, capture_output=True, text=True, cwd=tmp_path,
        check=True,
    )  # fmt: skip
    told = done.stdout.splitlines()
    assert len(told) >= len(COMMANDS.strip().splitlines()), done.stderr
    assert [line for line in told if not line.startswith(("0 ", "3 "))] == [], done.stdout
