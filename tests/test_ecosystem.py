"""Every estimator inside scikit-learn's tools, from one table; the checks themselves are elsewhere.

All of scikit-learn's estimator checks pass, without expected failures, for LinearSVC (each
multi_class), LinearSVCCV, SVC, MulticlassSVC, MultivariateSVC and RankSVM: see their own test
files. ChainSVM and StructuredSVM take sequences and objects, not a matrix: none of the checks
applies to them, and what holds without a matrix is tested here.
"""

import pickle

import joblib
import numpy as np
import pytest
import sklearn
from bridle import (
    SVC,
    ChainSVM,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    LogisticRegressionCV,
    MulticlassSVC,
    MultivariateSVC,
    OnlineSVC,
    Pegasos,
    Pinball,
    RankSVM,
    StructuredSVM,
    load_model,
)
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

# name -> (an estimator, a parameter for a search, how many classes)
CLASSIFIERS = {
    "LinearSVC": (LinearSVC(random_state=0), {"C": [0.01, 1.0]}, 3),
    "LinearSVC ovo": (LinearSVC(multi_class="ovo", random_state=0), {"C": [0.01, 1.0]}, 3),
    "LinearSVC joint": (LinearSVC(multi_class="crammer_singer"), {"C": [0.01, 1.0]}, 3),
    "LinearSVCCV": (LinearSVCCV(Cs=3, cv=3, random_state=0), {"loss": ["hinge"]}, 3),
    "LogisticRegressionCV": (LogisticRegressionCV(3, cv=3), {"multi_class": ["ovr"]}, 3),
    "SVC": (SVC(), {"gamma": [0.01, "scale"]}, 3),
    "MulticlassSVC": (MulticlassSVC(), {"C": [0.01, 1.0]}, 3),
    "MultivariateSVC": (MultivariateSVC("f1"), {"loss": ["f1", "roc"]}, 2),
    "OnlineSVC": (OnlineSVC(1e-3, random_state=0), {"lam": [1e-3, 1e-1]}, 3),
}
WEIGHTED = [name for name in CLASSIFIERS if name != "MultivariateSVC"]


def noisy(n_classes, n=150, d=6):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * [1, 2, 3, 1, 1, 1]
    scores = X @ rng.standard_normal((d, n_classes)) + rng.standard_normal((n, n_classes))
    return X, np.array(["a", "b", "c"])[scores.argmax(axis=1)]


@pytest.fixture(params=CLASSIFIERS)
def case(request):
    estimator, grid, n_classes = CLASSIFIERS[request.param]
    return clone(estimator), grid, *noisy(n_classes)


def test_pipeline_and_cross_validation(case):
    estimator, _, X, y = case
    assert is_classifier(estimator)
    pipeline = make_pipeline(StandardScaler(), estimator)
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.6
    assert cross_val_predict(pipeline, X, y, cv=3).shape == y.shape
    assert pipeline.fit(X, y).score(X, y) > 0.7
    assert pipeline[-1].certificate_ if not isinstance(estimator, OnlineSVC) else True


def test_grid_search_in_processes(case):
    estimator, grid, X, y = case
    search = GridSearchCV(estimator, grid, cv=3, n_jobs=2).fit(X, y)
    assert search.best_score_ > 0.6
    alone = GridSearchCV(estimator, grid, cv=3).fit(X, y)
    assert np.array_equal(
        search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"]
    )


def test_calibration(case):
    estimator, _, X, y = case
    p = CalibratedClassifierCV(estimator, cv=3).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.mean(np.unique(y)[p.argmax(axis=1)] == y) > 0.7


def test_meta_estimators(case):
    estimator, _, X, y = case
    for wrapper in (OneVsRestClassifier, OneVsOneClassifier):
        assert wrapper(estimator).fit(X, y).score(X, y) > 0.7


def test_clone_pickle_joblib(case, tmp_path):
    estimator, _, X, y = case
    estimator.fit(X, y)
    assert clone(estimator).get_params() == estimator.get_params()
    assert not hasattr(clone(estimator), "classes_")
    joblib.dump(estimator, tmp_path / "model")
    for again in (pickle.loads(pickle.dumps(estimator)), joblib.load(tmp_path / "model")):
        assert np.array_equal(again.decision_function(X), estimator.decision_function(X))
        assert np.array_equal(again.predict(X), estimator.predict(X))
        if hasattr(estimator, "certificate_"):
            assert again.certificate_ == estimator.certificate_
            assert again.status_ is estimator.status_


def test_fits_in_threads_and_processes_are_the_same(case):
    estimator, _, X, y = case
    here = clone(estimator).fit(X, y).decision_function(X)
    for backend in ("threading", "loky"):
        fits = joblib.Parallel(2, backend=backend)(
            joblib.delayed(_fit)(clone(estimator), X, y) for _ in range(3)
        )
        for scores in fits:
            assert np.array_equal(scores, here)


def _fit(estimator, X, y):
    return estimator.fit(X, y).decision_function(X)


def test_set_output_and_names(case):
    pytest.importorskip("pandas")
    estimator, _, X, y = case
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), estimator)
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("uvwxyz"))
    pipeline.fit(frame, y)
    assert list(pipeline[-1].feature_names_in_) == list("uvwxyz")
    with pytest.raises(ValueError, match="feature names"):
        pipeline[-1].predict(frame.rename(columns={"u": "other"}))


@pytest.mark.parametrize("storage", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array])
def test_sparse_rows(case, storage):
    estimator, _, X, y = case
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    thin = clone(estimator).fit(storage(X), y)
    dense = clone(estimator).fit(X, y)
    np.testing.assert_allclose(
        thin.decision_function(storage(X)), dense.decision_function(X), atol=1e-2
    )
    assert np.mean(thin.predict(storage(X)) == dense.predict(X)) > 0.98


@pytest.mark.parametrize("name", WEIGHTED)
def test_metadata_routing_of_sample_weight(name):
    estimator, grid, n_classes = CLASSIFIERS[name]
    X, y = noisy(n_classes)
    weights = np.where(np.arange(len(y)) % 2, 3.0, 0.5)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = clone(estimator).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, asked)
        routed = pipeline.fit(X, y, sample_weight=weights)
        scaled = StandardScaler().fit_transform(X)
        direct = clone(estimator).fit(scaled, y, sample_weight=weights)
        assert np.array_equal(routed.decision_function(X), direct.decision_function(scaled))
        assert not np.array_equal(
            direct.decision_function(scaled),
            clone(estimator).fit(scaled, y).decision_function(scaled),
        )
        asked.set_score_request(sample_weight=True)
        search = GridSearchCV(asked, grid, cv=3).fit(X, y, sample_weight=weights)
        assert 0.5 < search.best_score_ <= 1


def test_groups_are_routed_to_linear_svc_cv():
    X, y = noisy(2)
    model = LinearSVCCV(Cs=3, cv=GroupKFold(3), random_state=0)
    assert model.fit(X, y, groups=np.arange(len(y)) % 3).scores_.shape == (3, 3)


def test_parts_of_solvers_losses_and_kernels_in_searches():
    X, y = noisy(2)
    pipeline = make_pipeline(StandardScaler(), LinearSVC(solver=Pegasos(), tol=0.5))
    grid = {"linearsvc__solver__batch": [1, 20], "linearsvc__C": [0.1]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
    assert {model["linearsvc__solver__batch"] for model in search.cv_results_["params"]} == {1, 20}
    chosen = search.best_params_["linearsvc__solver__batch"]
    assert search.best_estimator_[-1].solver == Pegasos(batch=chosen)

    estimator = LinearSVC(solver=Pegasos(batch=3))
    assert estimator.get_params()["solver__batch"] == 3
    assert "solver__batch" not in estimator.get_params(deep=False)
    assert clone(estimator).set_params(solver__batch=4).solver == Pegasos(batch=4)
    assert estimator.solver == Pegasos(batch=3)
    assert LinearSVC(solver="pegasos").set_params(solver__batch=5).solver == Pegasos(batch=5)
    both = LinearSVC().set_params(solver__batch=6, solver=Pegasos(project=False))
    assert both.solver == Pegasos(batch=6, project=False)
    assert "kernel" in SVC(solver="pegasos").set_params(solver__project=True).solver.needs
    assert LinearSVR(loss=Pinball(0.3)).set_params(loss__quantile=0.7).loss == Pinball(0.7)
    with pytest.raises(ValueError, match=r"Invalid parameter 'bach' for solver Pegasos\. Valid"):
        estimator.set_params(solver__bach=1)


def test_metadata_routing_of_queries():
    X, y = noisy(2)
    qid = np.repeat(np.arange(15), 10)
    grades = (y == "a").astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = RankSVM("pairs").set_fit_request(qid=True).set_score_request(qid=True)
        pipeline = make_pipeline(StandardScaler(), ranker).fit(X, grades, qid=qid)
        direct = RankSVM("pairs").fit(StandardScaler().fit_transform(X), grades, qid)
        assert np.array_equal(
            pipeline.predict(X), direct.predict(StandardScaler().fit_transform(X))
        )
        scores = cross_val_score(
            ranker, X, grades, cv=GroupKFold(3), params={"qid": qid, "groups": qid}
        )
        assert scores.mean() > 0.6


def test_a_ranker_in_a_search_pickled_and_cloned(tmp_path):
    X, y = noisy(2)
    qid = np.repeat(np.arange(15), 10)
    with_ids, grades = np.column_stack([qid, X]), (y == "a").astype(float)
    search = GridSearchCV(RankSVM("pairs", qid_column=0), {"C": [0.01, 1.0]}, cv=GroupKFold(3))
    best = search.fit(with_ids, grades, groups=qid).best_estimator_
    again = pickle.loads(pickle.dumps(best))
    assert np.array_equal(again.predict(with_ids), best.predict(with_ids))
    assert again.certificate_ == best.certificate_
    assert clone(best).get_params() == best.get_params()


def test_text():
    texts = ["good fine great", "bad awful poor", "fine and good", "poor and bad"] * 10
    labels = ["+", "-"] * 20
    for estimator in (LinearSVC(), LinearSVCCV(3, cv=2), SVC(), MulticlassSVC(), OnlineSVC()):
        model = make_pipeline(TfidfVectorizer(), estimator).fit(texts, labels)
        assert list(model.predict(["great and good", "awful"])) == ["+", "-"]


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name.startswith("LinearSVC")])
def test_sparsify(name):
    estimator, _, n_classes = CLASSIFIERS[name]
    X, y = noisy(n_classes)
    model = clone(estimator).fit(X, y)
    before, weights = model.decision_function(X), model.coef_
    assert model.sparsify() is model
    assert sparse.issparse(model.coef_)
    assert np.array_equal(model.decision_function(X), before)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert np.array_equal(model.densify().coef_, weights)


# Those that take no matrix.


class Parity:
    """An oracle for whole numbers: is x odd?"""

    n_features = 2

    def features(self, x, y):
        return [float(y), float(y) * (x % 2)]

    def loss(self, y, other):
        return float(y != other)

    def argmax(self, x, w, truth=None):
        values = [w @ self.features(x, y) + (truth is not None and y != truth) for y in (0, 1)]
        return int(np.argmax(values))


def test_estimators_of_objects_and_sequences():
    numbers = list(range(20))
    model = StructuredSVM(Parity(), C=10.0).fit(numbers, [x % 2 for x in numbers])
    assert model.score(numbers, [x % 2 for x in numbers]) == 1.0
    again = pickle.loads(pickle.dumps(model))
    assert again.predict([3, 4]) == model.predict([3, 4]) == [1, 0]
    assert clone(model, safe=False).get_params()["C"] == 10.0
    rng = np.random.default_rng(0)
    X = [[{"word": str(w)} for w in rng.integers(0, 5, 6)] for _ in range(15)]
    y = [["odd" if int(token["word"]) % 2 else "even" for token in x] for x in X]
    tagger = ChainSVM(C=1.0).fit(X, y)
    again = pickle.loads(pickle.dumps(tagger))
    assert again.predict(X) == tagger.predict(X)
    assert clone(tagger).get_params() == tagger.get_params()
    search = GridSearchCV(ChainSVM(), {"C": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9


def test_every_estimator_that_can_is_saved(tmp_path):
    path = tmp_path / "model"
    for estimator, _, n_classes in CLASSIFIERS.values():
        X, y = noisy(n_classes)
        model = clone(estimator).fit(X, y)
        if isinstance(model, SVC):  # files hold kernel machines of two classes, or ovr
            model = SVC(multi_class="ovr").fit(X, y)
        model.save(path)
        read = load_model(path)
        assert np.array_equal(read.predict(X), model.predict(X))
        if hasattr(model, "certificate_"):
            assert read.certificate == model.certificate_
    X, y = noisy(2)
    ranker = RankSVM("pairs").fit(X, (y == "a").astype(float), np.repeat(np.arange(15), 10))
    ranker.save(path)
    assert np.array_equal(load_model(path).decision_function(X), ranker.predict(X))
    tagger = ChainSVM().fit([X[:75], X[75:]], [list(y[:75]), list(y[75:])])
    tagger.save(path)
    assert load_model(path).predict([X]) == tagger.predict([X])
    with pytest.raises(NotFittedError):
        SVC().save(path)
    numbers = list(range(8))
    StructuredSVM(Parity()).fit(numbers, [x % 2 for x in numbers]).save(path)
    assert load_model(path).predict(numbers, Parity()) == [x % 2 for x in numbers]
