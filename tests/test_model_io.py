"""Model files: what goes in comes out, and nothing but a model comes out."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import bridle
import numpy as np
import pytest
from bridle.errors import ModelError
from bridle.files import container as model_io
from bridle.matrix.fingerprint import fingerprint
from bridle.models.header import Objective
from bridle.models.linear import LinearModel
from bridle.models.storage import load_model, save_model
from bridle.objective.certificate import Certificate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix


def example(n_classes: int = 2, n_features: int = 7, **changes: object) -> LinearModel:
    rng = np.random.default_rng(n_classes)
    n = 1 if n_classes == 2 else n_classes
    fields = {
        "coef": rng.normal(size=(n, n_features)),
        "intercept": rng.normal(size=n),
        "classes": np.arange(n_classes, dtype=np.float64),
        "objective": Objective("hinge", 0.1, "regularised", 2.0),
        "certificates": tuple(Certificate(2.0 + k, 1.5 + k, "solver") for k in range(n)),
        "fingerprint": "abc",
        "n_rows": 5,
        "info": {"solver": "dcd", "seed": 3, "feature_names": ["ä", "ß"]},
    }
    return LinearModel(**(fields | changes))  # type: ignore[arg-type]


def assert_same(a: LinearModel, b: LinearModel) -> None:
    for name in ("coef", "intercept", "classes"):
        x, y = getattr(a, name), getattr(b, name)
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)
    assert (a.alpha is None) == (b.alpha is None)
    if a.alpha is not None:
        np.testing.assert_array_equal(a.alpha, b.alpha)
    for name in ("objective", "certificates", "fingerprint", "n_rows", "zero_based", "info"):
        assert getattr(a, name) == getattr(b, name), name


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("n_features", [0, 1, 8, 1000])
def test_round_trip(tmp_path: Path, n_classes: int, n_features: int) -> None:
    model = example(n_classes, n_features)
    save_model(tmp_path / "m", model)
    assert_same(load_model(tmp_path / "m"), model)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([-1, 1]), np.array([0.5, 1.5]), np.array([False, True]),
        np.array(["ham", "späm"]), np.array(["ham", "spam"], dtype=object),
        np.array([2**63, 2**63 + 1], dtype=np.uint64), np.array([1, 2], dtype=">i4"),
    ],
    ids=lambda classes: str(classes.dtype),
)  # fmt: skip
def test_class_labels_of_any_type(tmp_path: Path, classes: np.ndarray) -> None:
    save_model(tmp_path / "m", example(classes=classes))
    found = load_model(tmp_path / "m").classes
    assert found.tolist() == classes.tolist()
    assert found.dtype.kind == classes.dtype.kind


def test_infinite_cost_and_gap_survive(tmp_path: Path) -> None:
    model = example(
        objective=Objective(C=np.inf), certificates=(Certificate(np.inf, -np.inf),), zero_based=True
    )
    save_model(tmp_path / "m", model)
    assert_same(load_model(tmp_path / "m"), model)


def test_the_proof_can_be_kept(tmp_path: Path) -> None:
    model = example(3, alpha=np.random.default_rng(0).random((3, 5)))
    save_model(tmp_path / "m", model, dual=True)
    assert_same(load_model(tmp_path / "m"), model)
    save_model(tmp_path / "m", model)
    assert load_model(tmp_path / "m").alpha is None


def test_arrays_are_aligned_and_readable_without_bridle(tmp_path: Path) -> None:
    model = example(3)
    save_model(tmp_path / "m", model)
    raw = (tmp_path / "m").read_bytes()
    magic, number, _, size, total, digest = struct.unpack("<8sIIQQ32s", raw[:64])
    assert (magic, number, total) == (b"\x89bridle\n", 1, len(raw))
    assert hashlib.blake2b(raw[64:], digest_size=32).digest() == digest
    header = json.loads(raw[64 : 64 + size])
    assert header["kind"] == "linear"
    assert header["bridle"] == bridle.__version__
    assert header["fields"]["objective"]["C"] == 0.1
    start = -(-(64 + size) // 64) * 64
    for entry in header["arrays"]:
        assert (start + entry["offset"]) % 64 == 0
        count = int(np.prod(entry["shape"]))
        array = np.frombuffer(raw, entry["dtype"], count, start + entry["offset"])
        np.testing.assert_array_equal(array, getattr(model, entry["name"]).ravel())


def damaged(raw: bytes) -> dict[str, tuple[bytes, str]]:
    flipped = bytearray(raw)
    flipped[-70] ^= 1
    return {
        "empty": (b"", "not a bridle model"),
        "foreign": (b"solver_type L2R_L2LOSS_SVC\nnr_class 2\n" * 9, "not a bridle model"),
        "stub": (raw[:20], "ends after 20 bytes"),
        "truncated": (raw[:-1], f"{len(raw) - 1} bytes of {len(raw)}"),
        "longer": (raw + b"\0", f"{len(raw) + 1} bytes of {len(raw)}"),
        "flipped": (bytes(flipped), "checksum"),
        "newer": (raw[:8] + struct.pack("<I", 2) + raw[12:], "newer than this version"),
    }


@pytest.mark.parametrize("case", damaged(bytes(200)))
def test_damage_is_one_clear_line(tmp_path: Path, case: str) -> None:
    path = tmp_path / "m"
    save_model(path, example())
    content, message = damaged(path.read_bytes())[case]
    path.write_bytes(content)
    with pytest.raises(ModelError, match=message) as caught:
        load_model(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def forged(header: bytes, arrays: bytes, header_size: int | None = None) -> bytes:
    """A file with a valid checksum around whatever we like."""
    body = header + bytes(-len(header) % 64) + arrays
    return (
        struct.pack(
            "<8sIIQQ32s", model_io.MAGIC, 1, 0,
            len(header) if header_size is None else header_size, 64 + len(body),
            hashlib.blake2b(body, digest_size=32).digest(),
        ) + body
    )  # fmt: skip


def header_and_arrays(path: Path) -> tuple[dict, bytes]:
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[16:24])[0]
    return json.loads(raw[64 : 64 + size]), raw[-(-(64 + size) // 64) * 64 :]


HOSTILE = [
    ("arrays", 0, "offset", -64), ("arrays", 0, "offset", 2**61), ("arrays", 0, "offset", 1),
    ("arrays", 0, "offset", 10**30), ("arrays", 0, "offset", 1.5), ("arrays", 0, "offset", True),
    ("arrays", 0, "shape", [2**31, 2**31]), ("arrays", 0, "shape", [-1, 7]),
    ("arrays", 0, "shape", [1] * 100), ("arrays", 0, "shape", "77"), ("arrays", 0, "shape", 7),
    ("arrays", 0, "shape", [0, 2**61]), ("arrays", 0, "shape", [7]), ("arrays", 0, "shape", [1.0]),
    ("arrays", 0, "dtype", "|O"), ("arrays", 0, "dtype", "<i8"), ("arrays", 0, "dtype", None),
    ("arrays", 0, "dtype", "(9999999999,)f8"), ("arrays", 0, "name", []), ("arrays", 7),
    ("arrays", [{}]), ("arrays", None), ("kind", "os.system"), ("kind", []), ("fields", 3),
    ("fields", "classes", {"dtype": "|O", "values": [1, 2]}),
    ("fields", "classes", {"dtype": "<f8", "values": [1]}),
    ("fields", "classes", {"dtype": "<i8", "values": [10**40, 1]}),
    ("fields", "classes", {"dtype": "str", "values": [1, 2]}),
    ("fields", "classes", {"dtype": "<f8", "values": "ab"}),
    ("fields", "certificates", []), ("fields", "certificates", 0, "source", "trust me"),
    ("fields", "certificates", 0, "primal", "x"), ("fields", "objective", "C", None),
    ("fields", "objective", "loss", 3), ("fields", "n_rows", -1), ("fields", "info", 5),
]  # fmt: skip


@pytest.mark.parametrize("change", HOSTILE, ids=str)
def test_hostile_headers_end_in_a_model_error(tmp_path: Path, change: tuple) -> None:
    path = tmp_path / "m"
    save_model(path, example())
    header, arrays = header_and_arrays(path)
    *way, key, value = change
    place = header
    for step in way:
        place = place[step]
    place[key] = value
    path.write_bytes(forged(json.dumps(header).encode(), arrays))
    with pytest.raises(ModelError):
        load_model(path)


@pytest.mark.parametrize("name", ["kind", "fields", "arrays"])
def test_missing_parts_are_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m"
    save_model(path, example())
    header, arrays = header_and_arrays(path)
    del header[name]
    path.write_bytes(forged(json.dumps(header).encode(), arrays))
    with pytest.raises(ModelError, match=name):
        load_model(path)


@pytest.mark.parametrize(
    ("header", "size"),
    [
        (b"{}", 2**63), (b"{}", 2**28 + 1), (b"[" * 100_000, None), (b"\xff\xfe", None),
        (b"9" * 50_000, None), (b"null", None), (b"", None), (b"[]", None), (b"{}", 0),
    ],
)  # fmt: skip
def test_headers_that_are_no_header(tmp_path: Path, header: bytes, size: int | None) -> None:
    (tmp_path / "m").write_bytes(forged(header, b"", size))
    with pytest.raises(ModelError):
        load_model(tmp_path / "m")


def test_non_finite_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    save_model(path, example())
    header, arrays = header_and_arrays(path)
    path.write_bytes(forged(json.dumps(header).encode(), b"\xff" * 8 + arrays[8:]))
    with pytest.raises(ModelError, match="NaN"):
        load_model(path)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_fuzz(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes changed, cut or inserted, with or without a checksum that fits: a model or an error."""
    path = tmp_path / "m"
    save_model(path, example(3))
    original = path.read_bytes()
    raw = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        cut = data.draw(st.integers(0, 9))
        raw[at : at + cut] = data.draw(st.binary(max_size=9))
    if data.draw(st.booleans()) and len(raw) >= 64:
        raw[24:32] = struct.pack("<Q", len(raw))
        raw[32:64] = hashlib.blake2b(raw[64:], digest_size=32).digest()
    path.write_bytes(raw)
    try:
        model = load_model(path)
    except ModelError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert isinstance(model, LinearModel)
        assert np.isfinite(model.coef).all()


def test_a_failed_write_leaves_the_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m"
    old = example()
    save_model(path, old)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_model(path, example(3))
    assert_same(load_model(path), old)
    assert os.listdir(tmp_path) == ["m"]


def test_what_cannot_be_stored_is_refused_before_writing(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="class labels"):
        save_model(tmp_path / "m", example(classes=np.array([1 + 2j, 3])))
    with pytest.raises(ValueError):
        save_model(tmp_path / "m", example(info={"x": float("nan")}))
    assert os.listdir(tmp_path) == []


def test_models_need_no_scikit_learn() -> None:
    code = "import sys, bridle.models.storage; print('sklearn' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_decisions_equal_numpy() -> None:
    rng = np.random.default_rng(5)
    dense = rng.normal(size=(20, 7)) * (rng.random((20, 7)) < 0.5)
    for n_classes in (2, 4):
        model = example(n_classes, classes=np.arange(n_classes) * 10)
        expected = dense @ model.coef.T + model.intercept
        for X in (dense, csr_matrix(dense), csr_matrix(dense.astype(np.float32))):
            scores = model.decision_function(X)
            assert scores.shape == ((20,) if n_classes == 2 else (20, n_classes))
            np.testing.assert_allclose(scores.reshape(20, -1), expected, atol=1e-6)
        best = expected.argmax(1) if n_classes > 2 else (expected[:, 0] > 0).astype(int)
        np.testing.assert_array_equal(model.predict(dense), 10 * best)


def test_other_widths() -> None:
    model = example()
    rng = np.random.default_rng(6)
    wide = rng.normal(size=(5, 9))
    with pytest.raises(ValueError, match="X has 9 features, but the model has 7"):
        model.predict(wide)
    np.testing.assert_allclose(
        model.resized(9).decision_function(wide), model.decision_function(wide[:, :7])
    )
    padded = np.hstack([wide[:, :4], np.zeros((5, 3))])
    np.testing.assert_allclose(
        model.resized(4).decision_function(wide[:, :4]), model.decision_function(padded)
    )


def test_fingerprint_is_of_the_data_not_of_their_storage() -> None:
    rng = np.random.default_rng(7)
    X = (rng.normal(size=(50, 6)) * (rng.random((50, 6)) < 0.5)).astype(np.float32)
    y = rng.integers(0, 2, 50)
    name = fingerprint(X, y)
    sparse = csr_matrix(X.astype(np.float64))
    sparse.indices = sparse.indices.astype(np.int64)
    assert name == fingerprint(sparse, y.astype(float)) == fingerprint(X.astype(np.float64), y)
    changed = X.copy()
    changed[3, 3] += 1
    flipped = y.copy()
    flipped[4] ^= 1
    assert (
        len({name, fingerprint(changed, y), fingerprint(X, flipped), fingerprint(X[1:], y[1:])})
        == 4
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
def test_estimators_and_command_line_read_each_others_models(
    tmp_path: Path, n_classes: int, bias: str
) -> None:
    from bridle.cli import main
    from bridle.data import write_svmlight
    from click.testing import CliRunner

    rng = np.random.default_rng(8)
    X = rng.normal(size=(80, 5)).astype(np.float32)
    y = (X @ rng.normal(size=(5, n_classes))).argmax(axis=1).astype(float)
    write_svmlight(tmp_path / "d.svm", X, y)
    fitted = bridle.LinearSVC(0.5, bias=bias).fit(X, y)
    save_model(tmp_path / "ours", fitted)
    told = CliRunner().invoke(
        main, ["certify", str(tmp_path / "d.svm"), str(tmp_path / "ours"), "--json"]
    )
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["primal"] == pytest.approx(fitted.certificate_.primal)
    assert json.loads(told.stdout)["trained_on_these_data"] is True
    save_model(tmp_path / "weighted", fitted.fit(X, y, np.full(80, 2.0)))
    told = CliRunner().invoke(
        main, ["certify", str(tmp_path / "d.svm"), str(tmp_path / "weighted")]
    )
    assert told.exit_code == 2
    assert "weights" in told.stderr

    arguments = ["train", str(tmp_path / "d.svm"), str(tmp_path / "theirs"), "-c", "0.5"]
    trained = CliRunner().invoke(main, [*arguments, "--bias", bias])
    assert trained.exit_code == 0, trained.output
    model = load_model(tmp_path / "theirs")
    again = model.to_estimator()
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X))
    assert again.certificate_ == model.certificate
    save_model(tmp_path / "again", again)
    assert load_model(tmp_path / "again").objective == model.objective


def test_a_cross_validated_estimator_is_saved_with_the_c_it_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(60, 4))
    fitted = bridle.LinearSVCCV(Cs=[0.01, 1.0], cv=3).fit(X, X[:, 0] > 0)
    save_model(tmp_path / "m", fitted)
    model = load_model(tmp_path / "m")
    assert model.objective.C == fitted.C_
    np.testing.assert_array_equal(model.predict(X), fitted.predict(X))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="dict is neither a model nor a fitted estimator"):
        save_model(tmp_path / "m", {})
    assert os.listdir(tmp_path) == []


def test_columns_out_of_bounds_and_nan_are_refused() -> None:
    model = example(2, 5)
    X = csr_matrix(np.eye(3, 5))
    X.indices[1] = 10**6
    with pytest.raises(ValueError, match="column index 1000000"):
        model.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((2, 5), np.nan))
    assert len(model.predict(np.empty((0, 5)))) == 0


def test_the_command_line_predicts_words(tmp_path: Path) -> None:
    from bridle.cli import main
    from click.testing import CliRunner

    X, y = np.random.default_rng(0).standard_normal((40, 3)), np.array(["ja", "né"] * 20)
    data, model, output = (tmp_path / name for name in ("data.svm", "model", "out.txt"))
    estimator = bridle.LinearSVC().fit(X, y)
    estimator.save(model)
    bridle.data.write_svmlight(data, X, np.zeros(40))
    result = CliRunner().invoke(main, ["predict", str(data), str(model), str(output)])
    assert result.exit_code == 0, result.output
    assert output.read_text("utf-8").split() == estimator.predict(X).tolist()
