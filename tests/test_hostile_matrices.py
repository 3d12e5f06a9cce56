"""Matrices whose parts do not fit, at the door of everything public that takes a matrix."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import bridle
import bridle.matrix.fingerprint
import numpy as np
import pytest
import scipy.sparse as sp
from bridle.data import write_arrow, write_npz, write_svmlight
from bridle.matrix.door import as_matrix, canonical, check_matrix, make_rows
from bridle.matrix.fingerprint import fingerprint
from bridle.models.scaling import largest_values

N, WIDTH = 30, 6
Y = np.where(np.arange(N) % 2, 1.0, -1.0)


def rows() -> sp.csr_matrix:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(N, WIDTH)) + Y[:, None]
    dense[rng.random(dense.shape) < 0.5] = 0.0
    return sp.csr_matrix(dense)


def changed(format: str = "csr", **arrays: Callable[[Any], Any]) -> Callable[[], Any]:
    """The rows in some format, with arrays replaced after they were made."""

    def make() -> Any:
        X = rows().asformat(format)
        for name, change in arrays.items():
            setattr(X, name, change(getattr(X, name).copy()))
        return X

    return make


def put(k: int, value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[k] = value
        return array

    return change


BROKEN: dict[str, Callable[[], Any]] = {
    "indptr falls": changed(indptr=put(3, 1000)),
    "indptr negative": changed(indptr=put(1, -5)),
    "indptr too large": changed(indptr=put(-1, 10**6)),
    "indptr short": changed(indptr=lambda a: a[:-3]),
    "indptr long": changed(indptr=lambda a: np.append(a, a[-1])),
    "indptr empty": changed(indptr=lambda a: a[:0]),
    "indptr of floats": changed(indptr=lambda a: a.astype(float)),
    "indptr a matrix": changed(indptr=lambda a: a[:, None]),
    "indptr a list": changed(indptr=lambda a: a.tolist()),
    "index negative": changed(indices=put(4, -1)),
    "index too large": changed(indices=put(4, WIDTH)),
    "index far away": changed(indices=put(4, 2**31 - 1)),
    "index far away, 64 bits": changed(indices=lambda a: put(4, 2**40)(a.astype(np.int64))),
    "index unsigned": changed(indices=lambda a: put(4, 2**63)(a.astype(np.uint64))),
    "indices short": changed(indices=lambda a: a[:-1]),
    "indices of floats": changed(indices=lambda a: a + 0.5),
    "indices none": changed(indices=lambda a: None),
    "data short": changed(data=lambda a: a[:-2]),
    "data and indices short": changed(data=lambda a: a[:-2], indices=lambda a: a[:-2]),
    "data a matrix": changed(data=lambda a: a[:, None]),
    "data complex": changed(data=lambda a: a + 1j),
    "data objects": changed(data=lambda a: a.astype(object)),
    "rows beyond": lambda: _reshaped((10**12, WIDTH)),
    "rows missing": lambda: _reshaped((N - 1, WIDTH)),
    "narrower": lambda: _reshaped((N, 2)),
    "shape negative": lambda: _reshaped((N, -1)),
    "csc index": changed("csc", indices=put(4, N)),
    "csc indptr": changed("csc", indptr=put(2, 10**6)),
    "coo row": changed("coo", row=put(4, N)),
    "coo column": changed("coo", col=put(4, -1)),
    "coo short": changed("coo", col=lambda a: a[:-1]),
    "bsr index": changed("bsr", indices=put(0, 10**6)),
    "lil lists": changed("lil", data=put(2, [1.0] * 50)),
    "lil column": changed("lil", rows=put(2, [10**6])),
    "one dimension": lambda: np.ones(N),
    "three dimensions": lambda: np.ones((N, WIDTH, 2)),
    "objects": lambda: np.full((N, WIDTH), "x", dtype=object),
    "text": lambda: np.full((N, WIDTH), "x"),
    "complex": lambda: np.ones((N, WIDTH)) * 1j,
    "nothing": lambda: None,
}  # fmt: skip

ODD: dict[str, Callable[[], Any]] = {
    "as it is": rows,
    "unordered": lambda: _unordered(rows()),
    "duplicates": lambda: _doubled(rows()),
    "duplicates denied": lambda: _denied(_doubled(rows())),
    "room at the end": changed(data=lambda a: np.append(a, [9.0, 9.0]),
                               indices=lambda a: np.append(a, [77, -5]).astype(a.dtype)),
    "64 bits": changed(indices=lambda a: a.astype(np.int64), indptr=lambda a: a.astype(np.int64)),
    "16 bits": changed(indices=lambda a: a.astype(np.int16)),
    "other byte order": changed(data=lambda a: a.astype(">f8"), indices=lambda a: a.astype(">i4")),
    "strided": changed(data=lambda a: np.repeat(a, 2)[::2], indices=lambda a: np.repeat(a, 2)[::2]),
    "csc": lambda: rows().tocsc(), "coo": lambda: rows().tocoo(), "lil": lambda: rows().tolil(),
    "dok": lambda: rows().todok(), "dia": lambda: rows().todia(), "bsr": lambda: rows().tobsr(),
    "array": lambda: sp.csr_array(rows()), "dense": lambda: rows().toarray(),
    "fortran": lambda: np.asfortranarray(rows().toarray()),
}  # fmt: skip


def _reshaped(shape: tuple[int, int]) -> Any:
    X = rows()
    X._shape = shape
    return X


def _unordered(X: sp.csr_matrix) -> sp.csr_matrix:
    data, indices = X.data.copy(), X.indices.copy()
    for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        data[begin:end], indices[begin:end] = data[begin:end][::-1], indices[begin:end][::-1]
    return sp.csr_matrix((data, indices, X.indptr), shape=X.shape)


def _doubled(X: sp.csr_matrix) -> sp.csr_matrix:
    """Every entry twice, as two halves."""
    parts = (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr)
    return sp.csr_matrix(parts, shape=X.shape)


def _denied(X: sp.csr_matrix) -> sp.csr_matrix:
    X.has_canonical_format = True
    return X


@functools.cache
def fitted(name: str) -> Any:
    made: dict[str, Any] = {
        "LinearSVC": bridle.LinearSVC(probability="platt"), "SVC": bridle.SVC(gamma=0.5),
        "OnlineSVC": bridle.OnlineSVC(), "MulticlassSVC": bridle.MulticlassSVC(),
        "MultivariateSVC": bridle.MultivariateSVC(),
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "RankSVM":
            return bridle.RankSVM().fit(rows(), Y > 0, qid=np.arange(N) // 10)
        if name == "MultilabelSVC":
            return bridle.MultilabelSVC().fit(rows(), np.stack([Y > 0, Y < 0], axis=1).astype(int))
        return made[name].fit(rows(), Y)


def model_of(name: str) -> Any:
    return fitted(name).to_model()


def problem() -> Any:
    return bridle.LinearProblem(rows(), Y)


PUBLIC: dict[str, Callable[[Any, Path], Any]] = {
    "as_matrix": lambda X, _: as_matrix(X).shape,
    "canonical": lambda X, _: canonical(X).shape,
    "make_rows": lambda X, _: make_rows(X, 0.0, 1)[2],
    "largest_values": lambda X, _: largest_values(X),
    "fingerprint": lambda X, _: fingerprint(X, Y),
    "write_svmlight": lambda X, path: _written(write_svmlight, X, path),
    "write_arrow": lambda X, path: _written(write_arrow, X, path),
    "write_npz": lambda X, path: write_npz(path / "npz", X, Y),
    "LinearProblem": lambda X, _: bridle.LinearProblem(X, Y).primal(np.ones(WIDTH)),
    "solve": lambda X, _: bridle.solve(
        bridle.LinearProblem(X, Y), stop=bridle.Gap(1e-3)
    ).certificate.primal,
    "KernelProblem": lambda X, _: bridle.KernelProblem(X, Y).identity(),
    "certify": lambda X, _: bridle.certify(np.ones(WIDTH), X, Y).primal,
    "certify_model": lambda X, _: bridle.certify_model(model_of("LinearSVC"), X, Y)[0].primal,
    "path": lambda X, _: len(bridle.path(X, Y, 0.1, 1.0, gap=0.1)),
    "compare": lambda X, _: bridle.compare(
        bridle.LinearProblem(X, Y), ["dcd"], max_epochs=2, max_seconds=1
    ) and None,
    "compare on a test set": lambda X, _: bridle.compare(
        problem(), ["dcd"], max_epochs=2, max_seconds=1, test=(X, Y)
    ) and None,
    "solve_one_vs_rest": lambda X, _: bridle.solve_one_vs_rest(X, Y > 0, 2).certificate.primal,
    "HeldOutLoss": lambda X, _: bridle.solve(
        problem(), stop=bridle.HeldOutLoss(X, Y) | bridle.Epochs(3)
    ) and None,
    "LinearSVC.fit": lambda X, _: bridle.LinearSVC().fit(X, Y).coef_,
    "LinearSVC.predict": lambda X, _: fitted("LinearSVC").predict(X),
    "LinearSVC.decision_function": lambda X, _: fitted("LinearSVC").decision_function(X),
    "LinearSVC.predict_proba": lambda X, _: fitted("LinearSVC").predict_proba(X),
    "LinearSVC.score": lambda X, _: fitted("LinearSVC").score(X, Y),
    "LinearSVC, early stopping": lambda X, _: bridle.LinearSVC(
        early_stopping=True, random_state=0
    ).fit(X, Y).coef_,
    "LinearSVC, probabilities": lambda X, _: bridle.LinearSVC(probability="platt").fit(X, Y).coef_,
    "LinearSVCCV": lambda X, _: bridle.LinearSVCCV(Cs=[0.1, 1.0], cv=3).fit(X, Y).coef_,
    "LogisticRegressionCV": lambda X, _: bridle.LogisticRegressionCV([0.1, 1.0], cv=3)
    .fit(X, Y)
    .coef_,
    "SVC.fit": lambda X, _: bridle.SVC().fit(X, Y).decision_function(rows()),
    "SVC.predict": lambda X, _: fitted("SVC").predict(X),
    "OnlineSVC.fit": lambda X, _: bridle.OnlineSVC().fit(X, Y) and None,
    "OnlineSVC.partial_fit": lambda X, _: bridle.OnlineSVC().partial_fit(X, Y, classes=[-1, 1])
    and None,
    "OnlineSVC.predict": lambda X, _: fitted("OnlineSVC").predict(X),
    "OnlineSVC.certify": lambda X, _: fitted("OnlineSVC").certify(X, Y) and None,
    "OnlineSVM.learn": lambda X, _: bridle.OnlineSVM([-1, 1]).learn(X, Y) and None,
    "MulticlassSVC.fit": lambda X, _: bridle.MulticlassSVC().fit(X, Y) and None,
    "MulticlassSVC.predict": lambda X, _: fitted("MulticlassSVC").predict(X),
    "MultilabelSVC.predict": lambda X, _: fitted("MultilabelSVC").predict(X),
    "RankSVM.fit": lambda X, _: bridle.RankSVM().fit(X, Y > 0, qid=np.arange(N) // 10) and None,
    "RankSVM.predict": lambda X, _: fitted("RankSVM").predict(X),
    "MultivariateSVC.fit": lambda X, _: bridle.MultivariateSVC().fit(X, Y) and None,
    "MultivariateSVC.predict": lambda X, _: fitted("MultivariateSVC").predict(X),
    "LinearModel.predict": lambda X, _: model_of("LinearSVC").predict(X),
    "LinearModel.predict_proba": lambda X, _: model_of("LinearSVC").predict_proba(X),
    "KernelModel.predict": lambda X, _: model_of("SVC").predict(X),
    "RankingModel": lambda X, _: model_of("RankSVM").decision_function(X),
    "MultilabelModel": lambda X, _: model_of("MultilabelSVC").predict(X),
    "Nystrom": lambda X, _: bridle.Nystrom(X, 5).landmark_rows,
    "RandomFeatures": lambda X, _: bridle.RandomFeatures(X, 5).directions,
    "RankingProblem": lambda X, _: bridle.RankingProblem(X, Y > 0, np.arange(N) // 10) and None,
    "ChainProblem": lambda X, _: bridle.ChainProblem(
        X, np.arange(0, N + 1, 3), (Y > 0).astype(np.int32), 2
    ) and None,
    "ChainSVM.fit": lambda X, _: bridle.ChainSVM().fit([X], [(Y > 0).tolist()]) and None,
}  # fmt: skip


def refusal_of(use: Callable[[Any, Path], Any], X: Any, path: Path) -> Exception | None:
    """What comes of it, if that is an error."""
    try:
        use(X, path)
    except Exception as error:
        return error
    return None


def _written(write: Callable[..., None], X: Any, path: Path) -> bytes:
    write(path / "rows", X, Y)
    return (path / "rows").read_bytes()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PUBLIC)
def test_a_broken_matrix_is_an_error_in_words(name: str, tmp_path: Path) -> None:
    for kind, make in BROKEN.items():
        error = refusal_of(PUBLIC[name], make(), tmp_path)
        expected = (ValueError, TypeError) if kind == "nothing" else (ValueError,)
        assert type(error) in expected, f"{kind}: {error!r}"
        assert len(str(error)) > 10, kind


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PUBLIC)
def test_an_odd_matrix_is_what_it_says(name: str, tmp_path: Path) -> None:
    expected = PUBLIC[name](rows(), tmp_path)
    for kind, make in ODD.items():
        found = PUBLIC[name](make(), tmp_path)
        if expected is not None:
            if isinstance(expected, str | bytes):
                assert found == expected, kind
            else:
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=kind)


def test_a_matrix_wider_than_the_machine_is_refused() -> None:
    X = rows()
    wide = sp.csr_matrix((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)),
                         shape=(N, 2**50))  # fmt: skip
    check_matrix(wide)  # nothing is wrong with it
    wide.indices = put(4, -1)(X.indices.copy())  # 32 bits
    with pytest.raises(ValueError, match="column index -1, outside"):
        check_matrix(wide)
    wide.indices = X.indices.astype(np.int64)
    for use in (
        lambda: bridle.LinearSVC().fit(wide, Y), lambda: bridle.SVC(gamma=1.0).fit(wide, Y),
        lambda: bridle.LinearProblem(wide, Y), lambda: bridle.path(wide, Y, 1, 2),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="more than this machine can hold"):
            use()


def test_the_message_says_where() -> None:
    X = rows()
    row = int(np.searchsorted(X.indptr, 4, "right")) - 1
    with pytest.raises(ValueError, match=rf"row {row} has column index -1, outside 0..5"):
        as_matrix(BROKEN["index negative"]())
    with pytest.raises(ValueError, match=r"X.indptr falls from 1000 to \d+ at row 3"):
        as_matrix(BROKEN["indptr falls"]())


def test_models_take_no_broken_weights() -> None:
    linear, kernel = model_of("LinearSVC"), model_of("SVC")
    for kind in ("index too large", "index negative", "indptr falls", "data short"):
        X = BROKEN[kind]()
        with pytest.raises(ValueError, match=r"index|indptr|indices"):
            replace(linear, coef=X, intercept=np.zeros(N))
        with pytest.raises(ValueError, match=r"index|indptr|indices"):
            replace(kernel, support=X)


def test_a_fingerprint_needs_a_label_for_each_row():
    with pytest.raises(ValueError, match="X has 4 rows, but y has the shape"):
        bridle.matrix.fingerprint.fingerprint(np.eye(4), [1.0, -1.0])
