import threading
import tracemalloc

import numpy as np
import oracles
import pytest
from conftest import random_pairs
from hypothesis import given
from hypothesis import strategies as st

import nearkin as nk
from nearkin import passes
from nearkin.ordered_logit import OrderedLogitLink
from nearkin.pairs import Block, PairFeatures
from nearkin.passes import accumulate, hessian_diagonal, hessian_product
from nearkin.solvers import to_numpy


def make(rng, xp=np, n=12, K=3, M=3, N=50):
    X = rng.normal(size=(n, K))
    U = rng.dirichlet(np.ones(M), n) if M else None
    a, b = random_pairs(rng, n, N)
    ratings = nk.Ratings(a, b, rng.integers(1, 4, N))
    features = PairFeatures(xp.asarray(X), None if U is None else xp.asarray(U))
    return features, ratings, X, U


@pytest.mark.parametrize("M", [0, 1, 3])
def test_phi_is_the_papers(xp, rng, M):
    features, ratings, X, U = make(rng, xp, M=M)
    pairs = features.pairs(ratings)
    block = to_numpy(Block(features, pairs.a, pairs.b).phi())
    for i, row in enumerate(block):
        a, b = int(pairs.a[i]), int(pairs.b[i])
        u, v = (None, None) if U is None else (U[a], U[b])
        np.testing.assert_allclose(row, oracles.phi(X[a], X[b], u, v), rtol=1e-14)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(0, 4))
def test_phi_is_symmetric_and_theta_dot_phi_is_d2(seed, K, M):
    rng = np.random.default_rng(seed)
    features, ratings, X, U = make(rng, K=K, M=M)
    theta = rng.exponential(size=features.n_columns)
    forth = Block(features, ratings.a, ratings.b)
    back = Block(features, ratings.b, ratings.a)
    np.testing.assert_allclose(forth.phi(), back.phi(), rtol=1e-14)
    r, Q, _ = features.split(theta)
    np.testing.assert_allclose(forth.d2(r, Q), forth.phi() @ theta, rtol=1e-12)
    np.testing.assert_allclose(forth.d2(r, Q), back.d2(r, Q), rtol=1e-12)
    g = rng.normal(size=len(ratings))
    np.testing.assert_allclose(forth.transpose(g), forth.phi().T @ g, atol=1e-12)
    np.testing.assert_allclose(forth.square_sums(g), (forth.phi() ** 2).T @ g, atol=1e-12)
    if M:
        np.testing.assert_array_equal(Q, Q.T)
        i, j = ratings.a[0], ratings.b[0]
        expected = oracles.d2(X[i], X[j], r, U[i], U[j], Q)
        assert forth.d2(r, Q)[0] == pytest.approx(expected)


@pytest.mark.parametrize("M", [0, 3])
def test_pass_equals_dense_sums(xp, rng, M, monkeypatch):
    monkeypatch.setattr(passes, "BLOCK_ELEMENTS", 64 * 9)  # several blocks and chunks
    features, ratings, _, _ = make(rng, xp, n=40, M=M, N=700)
    pairs = features.pairs(ratings)
    theta = features.floats(rng.exponential(size=features.n_columns))
    link = OrderedLogitLink(features.floats([-1.0, 0.5]), features.xp)
    sums = accumulate(features, pairs, link, theta, hessian=True)

    block = Block(features, pairs.a, pairs.b)
    terms = link(block.d2(*features.split(theta)), pairs)
    phi, first, second, cross = (
        to_numpy(part) for part in (block.phi(), terms.first, terms.second, terms.cross)
    )
    H = np.block(
        [
            [phi.T @ (second[:, None] * phi), phi.T @ cross.T],
            [cross @ phi, to_numpy(terms.own_second)],
        ]
    )
    gradient = np.concatenate([phi.T @ first, to_numpy(terms.own)])
    assert float(sums.value) == pytest.approx(float(terms.value))
    np.testing.assert_allclose(to_numpy(sums.gradient), gradient, atol=1e-10)
    np.testing.assert_allclose(to_numpy(sums.hessian), H, atol=1e-10)

    v = rng.normal(size=len(H))
    Hv = hessian_product(features, pairs, link, theta, features.floats(v))
    np.testing.assert_allclose(to_numpy(Hv), H @ v, atol=1e-10)
    diagonal = to_numpy(hessian_diagonal(features, pairs, link, theta))
    np.testing.assert_allclose(diagonal, np.diag(H)[: len(diagonal)], atol=1e-10)


def test_split_and_join_are_transposes(rng):
    features, _, _, _ = make(rng, K=2, M=4)
    theta, r, G = rng.normal(size=12), rng.normal(size=2), rng.normal(size=(4, 4))
    weights, Q, _ = features.split(theta)
    assert weights @ r + np.sum(Q * G) == pytest.approx(theta @ features.join(r, G))


def test_sums_do_not_depend_on_the_number_of_cores(rng, monkeypatch):
    features, ratings, _, _ = make(rng, n=300, K=20, M=3, N=60_000)
    pairs = features.pairs(ratings)
    link = OrderedLogitLink(np.array([-1.0, 0.5]), features.xp)
    theta = rng.exponential(size=features.n_columns)
    seen = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(passes, "n_cores", lambda cores=cores: cores)
        seen.append(accumulate(features, pairs, link, theta, hessian=True))
    for sums in seen[1:]:
        np.testing.assert_array_equal(sums.hessian, seen[0].hessian)
        np.testing.assert_array_equal(sums.gradient, seen[0].gradient)


def test_both_cores_work(rng, monkeypatch):
    monkeypatch.setattr(passes, "n_cores", lambda: 2)
    features, ratings, _, _ = make(rng, n=300, K=20, N=60_000)
    workers = set()

    def link(d2, pairs):
        workers.add(threading.get_ident())
        return OrderedLogitLink(np.array([-1.0, 0.5]), features.xp)(d2, pairs)

    accumulate(features, features.pairs(ratings), link, np.ones(features.n_columns))
    assert len(workers) == 2


def test_overlapping_fits_leave_blas_as_it_was(rng):
    # each of two overlapping limits once restored the other's: BLAS stayed at one thread
    from threadpoolctl import threadpool_info

    def threads():
        blas = (lib for lib in threadpool_info() if lib["user_api"] == "blas")
        return [lib["num_threads"] for lib in blas if "faiss" not in lib["filepath"]]

    before = threads()
    inside, leave = threading.Event(), threading.Event()

    def first():
        with passes.single_blas():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()
    with passes.single_blas():
        leave.set()
        thread.join()
        assert set(threads()) == {1}
    assert threads() == before


def test_the_blas_of_faiss_is_left_alone():
    # limited in one thread and restored in another, it stayed at one thread in the first
    pytest.importorskip("faiss")
    passes._blas.cache_clear()
    assert passes._blas().info()
    assert not any("faiss" in lib["filepath"] for lib in passes._blas().info())


def test_float32_features_are_computed_in_float64(rng):
    features, ratings, X, U = make(rng)
    single = PairFeatures(X.astype(np.float32), U)
    double = PairFeatures(X.astype(np.float32).astype(np.float64), U)
    theta = np.ones(features.n_columns)
    link = OrderedLogitLink(np.array([-1.0, 0.5]), features.xp)
    sums = [accumulate(f, f.pairs(ratings), link, theta, hessian=True) for f in (single, double)]
    assert sums[0].gradient.dtype == np.float64
    np.testing.assert_array_equal(sums[0].hessian, sums[1].hessian)


def test_memory_does_not_grow_with_the_pairs(rng, monkeypatch):
    # one thread: with two, it is a matter of luck whether their largest moments meet
    monkeypatch.setattr(passes, "n_cores", lambda: 1)
    peaks = []
    for N in (100_000, 400_000):
        features, ratings, _, _ = make(rng, n=2_000, K=64, M=0, N=N)
        pairs = features.pairs(ratings)
        link = OrderedLogitLink(np.array([-1.0, 0.5]), features.xp)
        tracemalloc.start()
        accumulate(features, pairs, link, np.ones(64), hessian=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.05 * peaks[0]
    assert peaks[1] < 2**26  # all pair features would be 400,000 x 64 x 8 bytes > 2^27
