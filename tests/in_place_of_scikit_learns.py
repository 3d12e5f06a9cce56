"""A plugin for pytest: scikit-learn's own tests with bridle's classes in place of its own.

python -m pytest -p in_place_of_scikit_learns --pyargs sklearn.svm.tests.test_svm
"""

import sklearn.svm
from bridle import SVC, LinearSVC


def pytest_configure(config):
    sklearn.svm.SVC, sklearn.svm.LinearSVC = SVC, LinearSVC
