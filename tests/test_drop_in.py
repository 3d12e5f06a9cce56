"""scikit-learn's own tests of LinearSVC and SVC, and those of RFE, with our classes in their place.

Those that fail are listed in docs/estimators.md, each with its reason.
"""

import importlib.util
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import sklearn

HERE = Path(__file__).parent
SUITES = (
    "sklearn.svm.tests.test_svm",
    "sklearn.svm.tests.test_sparse",
    "sklearn.feature_selection.tests.test_rfe",
)
# Classes that are not replaced, the same with another container, which is converted first, and the
# slowest, of ten classes and of processes: without this filter all of them pass or are listed, too.
OTHERS = (
    "not svr and not oneclass and not n_jobs and not joblib and not unsorted "
    "and not (test_svc and (lil or csr_array or X_train2)) and not (rfecv and csr_array)"
)

# Of scikit-learn 1.6: more than 0.9 of a hundred rows, of classes that later versions draw further
# apart. The optimum has 0.91; within the default gap of 1e-3 of it, it is 0.90.
OF_OLDER_ONES = {"test_crammer_singer_binary"}


def listed():
    """The tests in the table of the docs: every `test_...` of its first column."""
    text = (HERE.parent / "docs" / "estimators.md").read_text(encoding="utf-8")
    section = text.split("## What scikit-learn's own tests say")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `test_")]
    return {name for row in rows for name in re.findall(r"`(test_\w+)`", row)}


@pytest.mark.skipif(
    any(importlib.util.find_spec(suite) is None for suite in SUITES),
    reason="this scikit-learn was installed without its tests",
)
def test_no_other_test_of_scikit_learns_fails_than_is_listed(tmp_path):
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["-c", os.devnull, "--rootdir", str(tmp_path), f"--junitxml={report}"]
    command += ["-p", "in_place_of_scikit_learns", "-k", OTHERS, "--pyargs", *SUITES]
    paths = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    cases = list(ET.parse(report).iter("testcase"))
    assert len(cases) > 150, done.stdout[-2000:]
    failed = {
        case.get("name", "").partition("[")[0]
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    }
    assert failed <= listed() | OF_OLDER_ONES, done.stdout[-6000:]
    if sklearn.__version__.startswith("1.9."):  # whose tests the list is of
        assert failed == listed()
