"""The svmlight reader and writer: what is accepted, what is refused and where, and junk."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from bridle.data import (
    SvmlightError,
    read_svmlight,
    read_svmlight_bytes,
    svmlight,
    write_svmlight,
)
from bridle.data.svmlight import read_arrays_and_base
from bridle.matrix.csr import CsrArrays
from bridle.matrix.door import as_matrix
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file


def parse(text, **options):
    data = text.encode() if isinstance(text, str) else text
    return read_svmlight_bytes(data, "f", **options)


def dense(text, **options):
    X, y = parse(text, **options)[:2]
    return X.toarray().tolist(), y.tolist()


def random_rows(seed=0, n_rows=200, n_features=50, density=0.2, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = sp.random(n_rows, n_features, density, "csr", dtype=dtype, random_state=rng)
    X.data -= dtype(0.5)
    return X, rng.choice([-1.0, 1.0], n_rows)


def same(A, B):
    return (
        A.shape == B.shape
        and np.array_equal(A.indptr, B.indptr)
        and np.array_equal(A.indices, B.indices)
        and np.array_equal(A.data, B.data)
    )


@pytest.fixture
def tiny_chunks(monkeypatch):
    monkeypatch.setattr(svmlight, "_CHUNK_BYTES", 1)


# ------------------------------------------------------------------------- what is accepted


@pytest.mark.parametrize(
    ("text", "rows", "labels"),
    [
        ("1 1:2 2:3\n-1 2:4\n", [[2, 3], [0, 4]], [1, -1]),
        ("1 1:2", [[2]], [1]),  # no final newline
        ("1 1:2\r\n-1 1:3\r\n", [[2], [3]], [1, -1]),
        ("1 1:2\r\n-1 1:3\r", [[2], [3]], [1, -1]),
        ("\ufeff1 1:2\n", [[2]], [1]),
        ("+1\t1:2 \t 2:3  \n", [[2, 3]], [1]),
        ("  1 1:2\n", [[2]], [1]),
        ("\n# head\n1 1:2 # tail 9:9\n\n   \n \t# more\n2 1:3#end\n", [[2], [3]], [1, 2]),
        ("1\n2 # nothing\n3 1:1\n", [[0], [0], [1]], [1, 2, 3]),
        ("1 3:3 1:1 2:2\n", [[1, 2, 3]], [1]),  # unsorted
        ("1 0:5 1:6\n1 2:7\n", [[5, 6, 0], [0, 0, 7]], [1, 1]),  # counts from zero
        ("1 qid:3 1:2\n1 1:4\n", [[2], [4]], [1, 1]),  # ignored
        ("1e0 1:1E2 2:1.5e-3 3:+.5 4:-2. 5:-0.25\n", [[100, 0.0015, 0.5, -2, -0.25]], [1]),
        ("-1.5 001:1 0000000000002:1\n", [[1, 1]], [-1.5]),
        ("1 1:1e-999 2:0.0e999 3:-0\n", [[0, 0, 0]], [1]),
    ],
)
@pytest.mark.usefixtures("tiny_chunks")
def test_accepts(text, rows, labels):
    assert dense(text, dtype=np.float64) == (rows, labels)
    assert dense(text, dtype=np.float64, n_threads=3) == (rows, labels)


def test_types_of_the_result():
    X, y, qid = parse("1 qid:7 1:0.1\n", qid=True)
    assert X.dtype == np.float32
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert y.dtype == np.float64
    assert qid.dtype == np.int64
    assert X.data[0] == np.float32(0.1)
    assert X.has_sorted_indices
    assert X.has_canonical_format
    assert parse("1 1:0.1\n", dtype="float64")[0].data[0] == 0.1
    X.check_format()


def test_arrays_are_writable_and_independent():
    X, y = parse("1 1:2\n")
    X.data[0], y[0] = 5, 6
    assert parse("1 1:2\n")[0].data[0] == 2


@pytest.mark.parametrize(
    ("zero_based", "rows"), [("auto", [[5, 6]]), (False, [[5, 6]]), (True, [[0, 5, 6]])]
)
def test_first_index_can_be_forced(zero_based, rows):
    assert dense("1 1:5 2:6\n", zero_based=zero_based)[0] == rows


def test_width_can_be_given():
    assert parse("1 1:1\n", n_features=7)[0].shape == (1, 7)
    assert parse("1 0:1 6:1\n", n_features=7)[0].shape == (1, 7)
    assert parse("1\n", n_features=0)[0].shape == (1, 0)
    assert parse("1\n")[0].shape == (1, 0)


def test_written_zeros_are_kept():
    X, _ = parse("1 1:0 2:1\n")
    assert X.nnz == 2


def test_qids():
    text = "1 qid:0 1:1\n2  qid:9223372036854775807\n3 qid:007 # x\n"
    assert parse(text, qid=True)[2].tolist() == [0, 2**63 - 1, 7]


def test_largest_index():
    X, _ = parse("1 2147483646:1\n")
    assert X.shape == (1, 2147483646)
    assert X.indices.tolist() == [2147483645]
    X, _ = parse("1 2147483646:1\n", zero_based=True)
    assert X.shape == (1, 2147483647)


# -------------------------------------------------------------------- what is refused, and where

ERRORS = [
    ("", "f:1:1: expected rows, found no rows"),
    ("# only\n\n", "f:1:1: expected rows, found no rows"),
    ("1 1:1\nx 1:1\n", "f:2:1: expected a label (a number), found 'x'"),
    ("nan 1:1\n", "f:1:1: expected a finite label, found 'nan'"),
    ("-Infinity\n", "f:1:1: expected a finite label, found '-Infinity'"),
    ("1e999 1:1\n", "f:1:1: expected a finite label, found '1e999'"),
    (
        "1,3 1:1\n",
        "f:1:1: expected a single label, found '1,3' (several labels in a row are not supported)",
    ),
    ("1:1 2:2\n", "f:1:1: expected a label before the features, found '1:1'"),
    ("qid:3 1:1\n", "f:1:1: expected a label before the features, found 'qid:3'"),
    ("1 2\n", "f:1:3: expected index:value, found '2'"),
    ("1 :2\n", "f:1:3: expected index:value, found ':2'"),
    ("1 a:2\n", "f:1:3: expected index:value, found 'a:2'"),
    ("1 1.5:2\n", "f:1:3: expected index:value, found '1.5:2'"),
    ("1 +1:2\n", "f:1:3: expected index:value, found '+1:2'"),
    ("1 1:1 -2:2\n", "f:1:7: expected an index that is not negative, found '-2:2'"),
    ("1 1:\n", "f:1:5: expected a value (a number), found the end of the line"),
    ("1 1:", "f:1:5: expected a value (a number), found the end of the line"),
    ("1 1: 2\n", "f:1:5: expected a value (a number), found a space"),
    ("1 1: \r\n", "f:1:5: expected a value (a number), found the end of the line"),
    ("1 1:#2\n", "f:1:5: expected a value (a number), found a comment"),
    ("\n1 1:1 2:1x\n", "f:2:9: expected a value (a number), found '1x'"),
    ("1 1:1:1\n", "f:1:5: expected a value (a number), found '1:1'"),
    ("1 1:--1\n", "f:1:5: expected a value (a number), found '--1'"),
    ("1 1:1e\n", "f:1:5: expected a value (a number), found '1e'"),
    ("1 1:.\n", "f:1:5: expected a value (a number), found '.'"),
    ("1 1:0x1p3\n", "f:1:5: expected a value (a number), found '0x1p3'"),
    ("1 1:nan\n", "f:1:5: expected a finite value, found 'nan'"),
    ("1 1:-INF\n", "f:1:5: expected a finite value, found '-INF'"),
    ("1 1:1e309\n", "f:1:5: expected a finite value, found '1e309'"),
    ("1 1:1e39\n", "f:1:5: expected a value within the range of float32, found '1e39'"),
    (
        "1 2147483647:1\n",
        "f:1:3: expected an index of at most 2147483646, found '2147483647:1'",
    ),
    (
        "1 99999999999999999999999:1\n",
        "f:1:3: expected an index of at most 2147483646, found '99999999999999999999999:1'",
    ),
    ("1 2:1 2:1\n", "f:1:7: expected an index that is not in the row already, found '2:1'"),
    (
        "1 3:1 2:1\t1:1 3:9 2:1 # x\n",
        "f:1:15: expected an index that is not in the row already, found '3:9'",
    ),
    (
        "1 qid:-1 1:1\n",
        "f:1:3: expected qid: and an integer from 0 to 9223372036854775807, found 'qid:-1'",
    ),
    (
        "1 qid:9223372036854775808 1:1\n",
        "f:1:3: expected qid: and an integer from 0 to 9223372036854775807, "
        "found 'qid:9223372036854775808'",
    ),
    (
        "1 qid:1.5\n",
        "f:1:3: expected qid: and an integer from 0 to 9223372036854775807, found 'qid:1.5'",
    ),
    (
        "1 1:1 qid:1\n",
        "f:1:7: expected index:value, found 'qid:1' (qid must come once, before the features)",
    ),
    (
        "1 qid:1 qid:2\n",
        "f:1:9: expected index:value, found 'qid:2' (qid must come once, before the features)",
    ),
    (b"1 1:1\n\x00\xff\n", r"f:2:1: expected a label (a number), found '\x00\xff'"),
    ("1 1:" + "9" * 400 + "\n", "f:1:5: expected a finite value, found '" + "9" * 32 + "...'"),
    ("\ufeff1 1:x\n", "f:1:5: expected a value (a number), found 'x'"),
    ("1 1:1\r\n2 1:1\r\n3 x\r\n", "f:3:3: expected index:value, found 'x'"),
    ("1 1:1\r2 1:1\r", "f:1:7: expected index:value, found '2'"),  # line ends of the last century
]


@pytest.mark.parametrize(("text", "message"), ERRORS)
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.usefixtures("tiny_chunks")
def test_refuses(text, message, n_threads):
    with pytest.raises(SvmlightError) as caught:
        parse(text, n_threads=n_threads)
    assert str(caught.value) == message
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "1 1:1\n1 2:1 0:1\n",
            {"zero_based": False},
            "f:2:7: expected an index from 1 to 2147483646, found '0:1'",
        ),
        (
            "1 1:1\n1 1:1 3:1 4:1\n",
            {"n_features": 2},
            "f:2:7: expected an index from 1 to 2, found '3:1'",
        ),
        (
            "1 1:1 2:1\n1 0:1\n",
            {"n_features": 2},
            "f:1:7: expected an index from 0 to 1, found '2:1'",
        ),
        (
            "1 2:1\n",
            {"n_features": 2, "zero_based": True},
            "f:1:3: expected an index from 0 to 1, found '2:1'",
        ),
        ("1\n1 2:1\n", {"n_features": 0}, "f:2:3: expected no features, found '2:1'"),
        ("1 qid:1 1:1\n1 1:1\n", {"qid": True}, "f:2:3: expected qid:, found '1:1'"),
        ("1\n", {"qid": True}, "f:1:2: expected qid:, found the end of the line"),
    ],
)
def test_refuses_with_options(text, options, message):
    with pytest.raises(SvmlightError) as caught:
        parse(text, **options)
    assert str(caught.value) == message


def test_first_error_wins_for_every_number_of_threads():
    lines = [b"1 1:1 2:0.5"] * 400_000
    for bad in (150_000, 150_001, 390_000):
        lines[bad] = b"1 1:1 2:oops"
    text = b"\n".join(lines)
    for n_threads in (1, 2, 8):
        with pytest.raises(SvmlightError, match=r"^f:150001:9: "):
            parse(text, n_threads=n_threads)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"dtype": np.int32}, "float32 or float64"),
        ({"zero_based": "yes"}, "zero_based"),
        ({"n_threads": 0}, "n_threads"),
        ({"n_features": -1}, "n_features"),
    ],
)
def test_refuses_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        parse("1 1:1\n", **options)


# ----------------------------------------------------------------------------------- numbers


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(1.7976931348623157e308)
@example(9007199254740993.0)
def test_numbers_are_correctly_rounded(number):
    for shown in (repr(number), f"{number:.17e}", f"{number:.20g}", f"{number:.6f}"):
        X, y = parse(f"{shown} 1:{shown}\n", dtype=np.float64)
        assert X.data[0] == y[0] == float(shown)
        assert np.signbit(X.data[0]) == np.signbit(float(shown))


@given(st.from_regex(r"\A[+-]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?\Z"))
@example("0." + "0" * 1000 + "1")
@example("0." + "0" * 400 + "1e400")
@example("1" + "0" * 400 + "e-400")
@example("9007199254740993")
@example("0.9007199254740993")
@example("9.999999999999999")
@example("12345678.9")
@example("123456789012345678901234567890")
def test_decimals_agree_with_python(text):
    expected = float(text)
    try:
        X, _ = parse(f"1 1:{text}\n", dtype=np.float64)
    except SvmlightError:
        assert np.isinf(expected)
    else:
        assert X.data[0] == expected


def test_largest_float32():
    edge = float.fromhex("0x1.ffffffp127")  # halfway to infinity
    largest = float(np.finfo(np.float32).max)
    below = float(np.nextafter(edge, 0))
    X, _ = parse(f"1 1:{largest!r} 2:{-below!r}\n")
    assert X.data.tolist() == [largest, -largest]
    with pytest.raises(SvmlightError, match="float32"):
        parse(f"1 1:{edge!r}\n")


# ------------------------------------------------------------------------- threads and chunks


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_chunks_and_threads_change_nothing(monkeypatch, chunk, ends):
    X, y = random_rows(1)
    text = io.BytesIO()
    dump_svmlight_file(X, y, text, query_id=np.arange(len(y)) // 3, comment="a: b: c")
    data = text.getvalue().replace(b"\n", ends.encode())
    whole = parse(data, qid=True, n_threads=1)
    monkeypatch.setattr(svmlight, "_CHUNK_BYTES", chunk)
    for n_threads in (1, 2, 5):
        parts = parse(data, qid=True, n_threads=n_threads)
        assert same(parts[0], whole[0])
        assert np.array_equal(parts[1], whole[1])
        assert np.array_equal(parts[2], whole[2])


def test_large_file_on_all_threads(tmp_path):
    X, y = random_rows(2, 20_000, 3_000, 0.01, np.float32)
    path = tmp_path / "large.svm"
    write_svmlight(path, X, y)
    assert path.stat().st_size > 3 * svmlight._CHUNK_BYTES
    for n_threads in (1, 2, 7, None):
        read, labels = read_svmlight(path, n_threads=n_threads, n_features=3_000)
        assert same(read, X)
        assert np.array_equal(labels, y)


def test_memory_of_the_result_is_trimmed():
    comment = b" # " + b":" * 1000
    X, y = parse((b"1 qid:1 1:2 5:3" + comment + b"\n\n") * 20_000)
    assert X.shape == (20_000, 5)
    assert (X.data.reshape(-1, 2) == [2, 3]).all()
    assert (y == 1).all()


# ------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_compression_is_recognised_by_content(tmp_path, pack):
    text = b"1 1:2\n-1 2:3\n"
    path = tmp_path / "any name"
    path.write_bytes(pack(text))
    for X, y in (read_svmlight(path), read_svmlight(str(path)), parse(pack(text))):
        assert X.toarray().tolist() == [[2, 0], [0, 3]]
        assert y.tolist() == [1, -1]


def test_gzip_of_several_members():
    data = gzip.compress(b"1 1:2\n") + gzip.compress(b"2 1:3\n")
    assert parse(data)[1].tolist() == [1, 2]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
@pytest.mark.parametrize("end", [7, -9, -1])
def test_damaged_compression(tmp_path, pack, end):
    path = tmp_path / "f.svm.gz"
    path.write_bytes(pack(b"1 1:2\n" * 1000)[:end])
    with pytest.raises(SvmlightError, match=r"f\.svm\.gz: expected a complete compressed file"):
        read_svmlight(path)


def test_error_names_the_file(tmp_path):
    path = tmp_path / "bad.svm"
    path.write_text("1 1:1\n1 1:x\n")
    with pytest.raises(SvmlightError) as caught:
        read_svmlight(path)
    assert str(caught.value) == f"{path}:2:5: expected a value (a number), found 'x'"


def test_empty_and_missing_files(tmp_path):
    path = tmp_path / "empty.svm"
    path.touch()
    with pytest.raises(SvmlightError, match="no rows"):
        read_svmlight(path)
    with pytest.raises(FileNotFoundError):
        read_svmlight(tmp_path / "missing.svm")
    with pytest.raises(IsADirectoryError):
        read_svmlight(tmp_path)


@pytest.mark.parametrize("extra", range(-20, 4))
def test_file_that_fills_its_last_page(tmp_path, extra):
    line = b"1 1:0.25 22:0.12345678\n"
    data = (line * 400)[: 4096 + extra].rsplit(b" ", 1)[0]
    data += b" " * (4096 + extra - len(data) - 2) + b" 7"[: 4096 + extra - len(data)]
    data = data[:-2] + b"\n7"
    path = tmp_path / "page.svm"
    path.write_bytes(data)
    assert path.stat().st_size == 4096 + extra
    assert read_svmlight(path)[1][-1] == 7


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_reads_a_pipe(tmp_path, pack):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(pack(b"1 1:2\n")))
    writer.start()
    assert read_svmlight(pipe)[0].toarray().tolist() == [[2]]
    writer.join()


def test_import_is_light():
    code = (
        "import sys, bridle.data; dir(bridle.data);"
        "heavy = {'scipy', 'sklearn'} & set(sys.modules); assert not heavy, heavy;"
        "bridle.data.read_svmlight; assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -------------------------------------------------------------------------- against scikit-learn


def both(data, **options):
    ours = read_svmlight_bytes(data, dtype=np.float64, **options)
    theirs = load_svmlight_file(
        io.BytesIO(data),
        n_features=options.get("n_features"),
        zero_based=options.get("zero_based", "auto"),
        query_id=options.get("qid", False),
    )
    return ours, theirs


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("qid", [True, False])
@pytest.mark.parametrize("comment", [None, "with: colons\nand lines"])
def test_agrees_with_scikit_learn(zero_based, qid, comment):
    X, y = random_rows(3)
    text = io.BytesIO()
    ids = np.arange(len(y)) // 5 if qid else None
    dump_svmlight_file(X, y, text, zero_based=zero_based, query_id=ids, comment=comment)
    for options in ({}, {"zero_based": zero_based}, {"n_features": 60}):
        ours, theirs = both(text.getvalue(), qid=qid, **options)
        assert same(ours[0], theirs[0])
        for mine, other in zip(ours[1:], theirs[1:], strict=True):
            assert np.array_equal(mine, other)


@pytest.mark.parametrize(
    "text",
    [
        b"1 1:2 3:4\n-1 2:3\n",
        b"1 0:2 3:4\n-1 2:3",
        b"# comment\n\n1.5 1:2\t3:4 # x\r\n-1e3 2:-3.25e-2\r\n",
        b"+1 7:1\n",
        b"1 1:0 2:-0.0\n",
        b"3\n2\n1 2:1\n",
    ],
)
def test_agrees_with_scikit_learn_by_hand(text):
    ours, theirs = both(text)
    assert same(ours[0], theirs[0])
    assert np.array_equal(ours[1], theirs[1])


# ---------------------------------------------------------------------------------- writing


@settings(max_examples=60, deadline=None)
@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]), zero_based=st.booleans())
def test_round_trip(tmp_path_factory, data, dtype, zero_based):
    width = 32 if dtype == np.float32 else 64
    number = st.floats(width=width, allow_nan=False, allow_infinity=False)
    shape = data.draw(st.tuples(st.integers(1, 8), st.integers(1, 8)))
    A = data.draw(hnp.arrays(dtype, shape, elements=number))
    y = data.draw(hnp.arrays(np.float64, shape[0], elements=st.floats(-1e300, 1e300)))
    qid = data.draw(hnp.arrays(np.int64, shape[0], elements=st.integers(0, 2**63 - 1)))
    path = tmp_path_factory.mktemp("round") / "trip.svm"
    write_svmlight(path, A, y, qid=qid, zero_based=zero_based)
    X, labels, ids = read_svmlight(
        path, dtype=dtype, qid=True, zero_based=zero_based, n_features=shape[1]
    )
    assert np.array_equal(X.toarray(), A)
    assert np.array_equal(labels, y)
    assert np.array_equal(ids, qid)


def test_written_text(tmp_path):
    path = tmp_path / "w.svm"
    X = sp.csr_matrix(np.array([[0.1, 0, 2], [0, 0, 0]], dtype=np.float32))
    write_svmlight(path, X, [1, -1.5])
    assert path.read_text() == "1 1:0.1 3:2\n-1.5\n"
    write_svmlight(path, X, [1, -1], qid=[4, 5], zero_based=True)
    assert path.read_text() == "1 qid:4 0:0.1 2:2\n-1 qid:5\n"
    assert list(tmp_path.iterdir()) == [path]


def test_writes_what_scikit_learn_reads(tmp_path):
    X, y = random_rows(4)
    path = tmp_path / "w.svm"
    write_svmlight(path, X, y)
    A, b = load_svmlight_file(str(path), n_features=X.shape[1])
    assert same(A, X)
    assert np.array_equal(b, y)


@pytest.mark.parametrize("kind", [sp.coo_array, sp.csc_matrix, sp.csr_array, np.asarray])
def test_writes_any_kind_of_matrix(tmp_path, kind):
    A = np.arange(6).reshape(2, 3)
    write_svmlight(tmp_path / "w.svm", kind(A), [0, 1])
    assert np.array_equal(read_svmlight(tmp_path / "w.svm")[0].toarray(), A)


def test_writes_64_bit_indices_unsorted_and_duplicate(tmp_path):
    X = sp.csr_matrix(
        (np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3)
    )
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    before = X.indices.copy()
    write_svmlight(tmp_path / "w.svm", X, [1])
    assert (tmp_path / "w.svm").read_text() == "1 1:2 3:4\n"
    assert np.array_equal(X.indices, before)


@pytest.mark.parametrize(
    ("X", "y", "qid", "match"),
    [
        ([[1.0]], [1, 2], None, "y has shape"),
        ([[np.nan]], [1], None, "finite"),
        ([[1.0]], [np.inf], None, "finite"),
        ([[1.0]], [1], [1, 2], "qid has shape"),
        ([[1.0]], [1], [-1], "not negative"),
        ([[1.0]], [1], [0.5], "integers"),
    ],
)
def test_refuses_to_write(tmp_path, X, y, qid, match):
    path = tmp_path / "w.svm"
    path.write_text("before")
    with pytest.raises(ValueError, match=match):
        write_svmlight(path, np.array(X), y, qid=qid)
    assert path.read_text() == "before"


def test_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(svmlight, "_format", fail)
    with pytest.raises(KeyboardInterrupt):
        write_svmlight(tmp_path / "w.svm", np.eye(2), [1, 2])
    assert list(tmp_path.iterdir()) == []


def test_writes_through_a_link(tmp_path):
    target, link = tmp_path / "target.svm", tmp_path / "link.svm"
    target.touch()
    link.symlink_to(target)
    write_svmlight(link, np.eye(1), [1])
    assert link.is_symlink()
    assert target.read_text() == "1 1:1\n"


# ------------------------------------------------------------------------------------ garbage

SEED_TEXT = (
    b"\xef\xbb\xbf# head: er\n+1 qid:12 1:0.5 3:-1.25e-3 17:123456789.123456789 # tail 1:2\r\n"
    b"-1 qid:13 2147483646:1e-300\t5:3\n\n0.5 qid:9223372036854775807 1:1 2:0.1234567890123456789\n"
    b"1e5 qid:0\n2 qid:3 4:.5 6:7. 8:+9"
)
FRAGMENTS = [
    b"\0", b"\xff", b"\n", b"\r", b"\t", b" ", b":", b"#", b"-", b"+", b".", b"e", b"E", b",", b"0",
    b"9" * 9, b"9" * 40, b"1e999", b"1e-999", b"e" + b"9" * 30, b"nan", b"inf", b"qid:", b"qid",
    b"0:", b"1:1 ", b"2147483647:1", b"18446744073709551616", b"0." + b"0" * 50, b"\x1f\x8b",
    b"\xef\xbb\xbf", b"\x80" * 8, b"::::::::", b"1:1" * 9,
]  # fmt: skip


def survive(data):
    """Only a result or an SvmlightError may come out, the same for every way of reading."""
    outcomes = []
    for chunk, n_threads, qid in ((1 << 21, 1, False), (1, 1, False), (5, 3, False), (3, 2, True)):
        svmlight._CHUNK_BYTES = chunk
        try:
            X, y, *_ = read_svmlight_bytes(data, n_threads=n_threads, qid=qid)
        except SvmlightError as error:
            outcome = str(error)
            assert outcome.isprintable()
            assert len(outcome) < 300
        else:
            X.check_format()
            assert np.isfinite(X.data).all()
            assert np.isfinite(y).all()
            outcome = (X.shape, X.indptr.tobytes(), X.indices.tobytes(), X.data.tobytes())
        if not qid:
            outcomes.append(outcome)
    assert len(set(outcomes)) == 1


@pytest.fixture
def any_chunks(monkeypatch):
    monkeypatch.setattr(svmlight, "_CHUNK_BYTES", svmlight._CHUNK_BYTES)  # restored afterwards


@pytest.mark.usefixtures("any_chunks")
def test_every_truncation():
    for end in range(len(SEED_TEXT) + 1):
        survive(SEED_TEXT[:end])
        survive(SEED_TEXT[end:])


@pytest.mark.usefixtures("any_chunks")
def test_mutations():
    rng = np.random.default_rng(0)
    for _ in range(3000):
        data = bytearray(SEED_TEXT)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(len(data) + 1))
            cut = int(rng.integers(0, 6))
            data[at : at + cut] = FRAGMENTS[rng.integers(len(FRAGMENTS))]
        survive(bytes(data))


@pytest.mark.usefixtures("any_chunks")
def test_binary_junk():
    rng = np.random.default_rng(1)
    alphabet = np.frombuffer(b"0123456789 :.-+e#\n\r\tqid,", np.uint8)
    for _ in range(1000):
        size = int(rng.integers(0, 200))
        survive(rng.bytes(size))
        survive(rng.choice(alphabet, size).tobytes())
        survive(b"1 " + b" ".join(FRAGMENTS[k] for k in rng.integers(len(FRAGMENTS), size=6)))


@pytest.mark.usefixtures("any_chunks")
def test_damaged_gzip_never_crashes():
    rng = np.random.default_rng(2)
    packed = gzip.compress(SEED_TEXT * 20)
    for _ in range(300):
        data = bytearray(packed)
        data[int(rng.integers(2, len(data)))] ^= int(rng.integers(1, 256))
        with_error = bytes(data[: int(rng.integers(2, len(data) + 1))])
        with contextlib.suppress(SvmlightError):
            read_svmlight_bytes(with_error)


@given(st.binary(max_size=300))
def test_any_bytes(data):
    with contextlib.suppress(SvmlightError):
        read_svmlight_bytes(data, n_threads=2)


@pytest.mark.parametrize(
    "data",
    [
        b"1 " + b":" * 1_000_000,
        b"1" * 1_000_000,
        b"1 1:" + b"0" * 1_000_000 + b"1",
        b"1 1:0." + b"0" * 1_000_000 + b"1",
        b"1 1:1e" + b"1" * 1_000_000,
        b"1 " + b"0" * 1_000_000 + b"1:1",
        b"\0" * 1_000_000,
        b"\n" * 1_000_000,
        b"#" * 1_000_000,
        b"1 " + b"1:1 " * 100_000,
        b"1 " + b" ".join(b"%d:1" % k for k in range(100_000, 0, -1)),
    ],
)
@pytest.mark.usefixtures("any_chunks")
def test_long_lines(data):
    survive(data)


def test_file_on_disk_survives_too(tmp_path):
    rng = np.random.default_rng(3)
    path = tmp_path / "junk"
    for size in (1, 15, 16, 17, 4095, 4096, 4097, 8192):
        for data in (rng.bytes(size), b"1" * size, (b"1 1:" + b"0" * size)[:size]):
            path.write_bytes(data)
            with contextlib.suppress(SvmlightError):
                read_svmlight(path)


def test_arrays_are_a_matrix_when_asked(tmp_path):
    path = tmp_path / "rows.svm"
    write_svmlight(path, sp.random(20, 9, 0.3, "csr", np.float32, 0), np.arange(20.0))
    X, y, zero_based = read_arrays_and_base(path)
    matrix, labels = read_svmlight(path)
    assert not zero_based
    assert np.array_equal(y, labels)
    assert (X.shape, X.nnz, X.dtype, X.ndim) == (matrix.shape, matrix.nnz, matrix.dtype, 2)
    assert X.tocsr().data is X.data  # not copied
    assert X.tocsr() is X.tocsr()
    w = np.arange(9.0)
    for found, wanted in (
        (X.tocsr(), matrix), (X[3:7], matrix[3:7]), (X.T, matrix.T), (X.copy(), matrix),
    ):  # fmt: skip
        assert (found != wanted).nnz == 0
    assert np.array_equal(X @ w, matrix @ w)
    assert as_matrix(X) is X
    assert as_matrix(CsrArrays(X.data.astype(int), X.indices, X.indptr, X.shape)).dtype == float
    with pytest.raises(AttributeError, match="no_such"):
        _ = X.no_such


USUAL = st.from_regex(r"-?[0-9]{1,17}|-?[0-9]\.[0-9]{0,17}", fullmatch=True)
UNUSUAL = st.from_regex(r"[-+]?([0-9]{1,3}\.[0-9]{0,9}|\.[0-9]{1,9})(e-?[0-9])?", fullmatch=True)
INDICES = st.lists(st.one_of(st.integers(1, 999), st.integers(1, 2**31 - 2)), unique=True)


@given(
    rows=st.lists(st.tuples(INDICES, st.lists(st.one_of(USUAL, USUAL, UNUSUAL))), max_size=6),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_usual_and_unusual_numbers_are_read_alike(rows, dtype):
    # Single spaces let features of usual shapes be read on vectors; tabs never do.
    pairs = [list(zip(sorted(i), v, strict=False)) for i, v in rows]
    lines = [" ".join(["1"] + [f"{i}:{v}" for i, v in row]) for row in pairs]
    text = "1 2147483646:1 # not at the start of the text\n" + "\n".join(lines)
    spaced, _ = read_svmlight_bytes(text.encode(), dtype=dtype)
    tabbed, _ = read_svmlight_bytes(text.replace(" ", "\t").encode(), dtype=dtype)
    with np.errstate(over="ignore"):
        wanted = np.array([1.0] + [float(v) for row in pairs for _, v in row]).astype(dtype)
    assert spaced.data.tobytes() == tabbed.data.tobytes() == wanted.tobytes()
    assert spaced.indices.tolist()[1:] == [i - 1 for row in pairs for i, _ in row]
    assert np.array_equal(spaced.indices, tabbed.indices)
    assert np.array_equal(spaced.indptr, tabbed.indptr)


@pytest.mark.parametrize(
    "token",
    [
        ":1", "1:", "1:-", "1:--1", "1:1-", "1:.", "1:-.", "1:1.2.3", "1:0x1", "1:1:2", "a:1",
        "1:/", "1:1\x00", "1:0.\xff1", "-1:1", "1;1", "1:1,5", "123456789012:1", "1:1.a", "1:a.1",
    ],
)  # fmt: skip
def test_what_is_wrong_is_found_anywhere_in_a_row(token):
    before, after = "2:0.5 3:1 4:-1.25 " * 3, " 900:1 901:0.25 902:3"
    k = iter(range(2, 99))
    before = " ".join(f"{next(k)}:{t.partition(':')[2]}" for t in before.split())
    text = f"-1 1:0.125 5:1\n+1 {before} {token}{after}\n"
    where = 4 + len(before) + 1
    for variant in (text, text.replace(" ", "\t")):
        with pytest.raises(SvmlightError, match=rf"^<bytes>:2:({where}|{where + 2}): expected"):
            read_svmlight_bytes(variant.encode("latin-1"))
