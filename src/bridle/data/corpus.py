from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

ROWS = 8192  # rows of a block
TOPICS = 128
SLOTS = 16
TICKETS = 16  # bits
import os
_P = dict(s=1.0, m=2.7, sig=1.3, sigg=0.0, sdlen=0.55, own=9, eta=0.03, anchor=1.0)
_P.update(eval("dict(%s)" % os.environ.get("CP", "")))

def _stream(seed, *key):
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key))

def _raw16(stream, n):
    return stream.random_raw((n + 3) // 4).astype("<u8").view("<u2")[:n]

def _uniform_bits(stream, n, bits):
    return (stream.random_raw(n) >> np.uint64(64 - bits)).astype(np.int64)

def _quantiles():
    q = NormalDist()
    return np.array([q.inv_cdf((i + 0.5) / 4096) for i in range(4096)])

def _urn(weights, bits, offset=0.5):
    cdf = np.cumsum(weights)
    edges = np.floor(cdf * (2**bits / cdf[-1]) + offset).astype(np.int64)
    edges[-1] = 2**bits
    return np.repeat(np.arange(len(weights), dtype=np.int32), np.diff(edges, prepend=0))

@dataclass
class _Model:
    words: Any
    topics: Any
    group: Any
    lengths: Any
    idf: Any
    n_features: int

@lru_cache(maxsize=2)
def model(seed, V, nnz):
    P = _P
    st = _stream(seed, 0)
    z = _quantiles()
    rank = np.argsort(st.random_raw(V), kind="stable")
    q = (1.0 / (rank + 1 + P["m"])) ** P["s"]
    K = TOPICS
    group = np.where(np.arange(K) % 2 == 0, 1, -1)
    size = 1.0 / (np.arange(K) // 2 + 5.0)
    prior = size * np.where(group > 0, 0.47, 0.53) / size[group > 0].sum()
    topics = _urn(prior, 16)
    words = np.empty((K, 2**TICKETS), dtype=np.int32)
    h = {g: z[_raw16(st, V) >> 4] for g in (1, -1)}
    df = np.zeros(V)
    damp = np.minimum(1.0, 1)  # placeholder
    L0 = 1.6 * nnz
    for k in range(K):
        g = z[_raw16(st, V) >> 4]
        phi = q * np.exp(P["sig"] * g + P["sigg"] * h[group[k]])
        words[k] = _urn(phi, TICKETS, offset=_raw16(st, 1)[0] / 65536)
        df += prior[k] * -np.expm1(-L0 * phi / phi.sum())
    idf = np.log(1.0 / np.maximum(df, 1e-6))
    mdl = _Model(words.ravel(), topics, group, None, idf, V)
    # Heaps' curve
    n, T = 256, int(16 * nnz)
    _, w, _ = _draw(mdl, _stream(seed, 1), np.full(n, T))
    key = np.repeat(np.arange(n), T) * V + w
    _, first = np.unique(key, return_index=True)
    heaps = np.cumsum(np.bincount(first % T, minlength=T)) / n
    shape = np.exp(P["sdlen"] * z)
    lo, hi = 0.0, T / 2.0
    for _ in range(40):
        c = (lo + hi) / 2
        L = np.clip(np.rint(c * shape), 1, T).astype(np.int64)
        lo, hi = (c, hi) if heaps[L - 1].mean() < nnz else (lo, c)
    mdl.lengths = L
    mdl.meanlen = L.mean()
    return mdl

def _draw(mdl, st, L):
    P = _P
    n = len(L)
    u = st.random_raw(3 * n).reshape(3, n)
    z1 = mdl.topics[(u[0] >> 48).astype(np.int64)]
    z2 = mdl.topics[(u[1] >> 48).astype(np.int64)]
    # share of z1: own..16 slots
    a = P["own"] + (u[2] >> np.uint64(32)) % np.uint64(17 - P["own"])
    slots = np.where(np.arange(SLOTS)[None, :] < a[:, None].astype(np.int64), z1[:, None], z2[:, None])
    flip = ((u[2] & np.uint64(0xFFFFFF)).astype(float) / 2**24) < P["eta"]
    y = np.where(flip, -1, 1) * mdl.group[z1]
    row = np.repeat(np.arange(n), L)
    r = st.random_raw(len(row))
    urn = slots.ravel()[row * SLOTS + (r >> np.uint64(60)).astype(np.int64)].astype(np.int64)
    w = mdl.words[(urn << TICKETS) + (r & np.uint64(2**TICKETS - 1)).astype(np.int64)]
    return row, w, y

def _block(mdl, seed, b):
    st = _stream(seed, 2, b)
    L = mdl.lengths[(st.random_raw(ROWS) >> np.uint64(52)).astype(np.int64)]
    row, w, y = _draw(mdl, st, L)
    key = np.sort((row << 16 | w).astype(np.uint32))
    start = np.flatnonzero(np.diff(key, prepend=key[0] - np.uint32(1)) != 0)
    tf = np.diff(start, append=len(key))
    key = key[start]
    j = (key & 0xFFFF).astype(np.int32)
    i = key >> 16
    v = (1 + np.log(tf)) * mdl.idf[j]
    v /= np.sqrt(np.bincount(i, v * v))[i]
    return np.bincount(i, minlength=ROWS), j, v.astype(np.float32), y.astype(float)

def make_corpus(n_rows=100_000, *, seed=0, n_features=47236, nnz_per_row=75):
    from scipy.sparse import csr_matrix
    mdl = model(seed, n_features, nnz_per_row)
    bl = [_block(mdl, seed, b) for b in range(-(-n_rows // ROWS))]
    nn = np.concatenate([b[0] for b in bl])[:n_rows]
    ptr = np.concatenate([[0], np.cumsum(nn)])
    X = csr_matrix((np.concatenate([b[2] for b in bl])[:ptr[-1]], np.concatenate([b[1] for b in bl])[:ptr[-1]], ptr.astype(np.int32)), shape=(n_rows, n_features))
    return X, np.concatenate([b[3] for b in bl])[:n_rows]
