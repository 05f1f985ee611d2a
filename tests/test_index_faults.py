"""Damaged files, killed processes, full disks: the old index, the new one, or a clear error."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager

import index_cases  # noqa: F401 - faiss with one thread
import numpy as np
import pytest

import nearkin as nk
from nearkin.bundle import BundleError
from nearkin.index import HNSW, IVF, ApproximateIndex, ExactIndex, FolderBusyError

ENGINES = {"cells": IVF(cells=3), "codes": IVF(cells=3, coded=True), "graph": HNSW(links=4)}
KINDS = {"exact": ExactIndex, **dict.fromkeys(ENGINES, ApproximateIndex)}
N = 40


def example(kind, first):
    """Two indexes that differ in everything a search shows."""
    metric = nk.Metric(np.array([1.0, 2.0]))
    engine = ENGINES.get(kind)
    index = KINDS[kind](metric) if engine is None else ApproximateIndex(metric, 0.9, engine)
    x = np.random.default_rng(0).normal(size=(N, 2))
    index.add(metric.points(x), [f"{first}{i}" for i in range(N)], labels=[first] * N)
    if engine is not None:
        assert index.build(k=3)._made is not None
    return index


def answer(index):
    queries = index.metric.points([[0.0, 0.0], [1.0, -1.0]])
    return [index.search(queries, k).ids.tolist() for k in (3, N)]


@pytest.fixture(params=list(KINDS))
def kind(request):
    return request.param


@pytest.fixture
def folder(kind, tmp_path):
    example(kind, "old").save(tmp_path / "index")
    return tmp_path / "index"


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)


def refused_or_unchanged(kind, folder, expected):
    """Load; return whether that was refused, and fail on a wrong answer."""
    for mmap in (False, True):
        try:
            index = KINDS[kind].load(folder, mmap=mmap)
        except (BundleError, FileNotFoundError):
            refused = True
        else:
            assert answer(index) == expected
            refused = False
    return refused


def test_truncated_files_are_refused(kind, folder):
    expected = answer(KINDS[kind].load(folder))
    for path in files(folder):
        if path.name == ".lock":
            continue
        data = path.read_bytes()
        for length in {*range(0, len(data), 1024), len(data) - 1}:
            path.write_bytes(data[:length])
            assert refused_or_unchanged(kind, folder, expected), (path, length)
        path.write_bytes(data + b"\0")
        assert refused_or_unchanged(kind, folder, expected), path
        path.unlink()
        assert refused_or_unchanged(kind, folder, expected), path
        path.write_bytes(data)
    assert not refused_or_unchanged(kind, folder, expected)


def test_flipped_bytes_are_refused(kind, folder):
    expected = answer(KINDS[kind].load(folder))
    for path in files(folder):
        if path.name == ".lock":
            continue
        data = bytearray(path.read_bytes())
        for at in {0, len(data) - 1, *range(0, len(data), max(1, len(data) // 12))}:
            data[at] ^= 0x15
            path.write_bytes(data)
            assert refused_or_unchanged(kind, folder, expected), (path, at)
            data[at] ^= 0x15
        path.write_bytes(data)
    assert not refused_or_unchanged(kind, folder, expected)


def test_every_byte_of_the_file_that_names_the_generation_counts(kind, folder):
    data = bytearray((folder / "CURRENT").read_bytes())
    for at in range(len(data)):
        data[at] ^= 0x01
        (folder / "CURRENT").write_bytes(data)
        assert refused_or_unchanged(kind, folder, None), at
        data[at] ^= 0x01


SAVER = """
    import sys
    sys.path.insert(0, {tests!r})
    from test_index_faults import example
    index = example({kind!r}, "new")
    print("ready", flush=True)
    sys.stdin.readline()
    {body}
    print("done", flush=True)
"""


@contextmanager
def running(kind, body):
    """Run a process that makes an index, and then waits to go on with the body."""
    code = textwrap.dedent(SAVER).format(tests=os.path.dirname(__file__), kind=kind, body=body)  # noqa: PTH120
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            yield process
        finally:
            process.kill()


def go(process):
    process.stdin.write("\n")
    process.stdin.flush()


# stops itself at the n-th call that changes or syncs something on disk, as a crash there would
DIE_AT = """
import os, signal, builtins, pathlib
count = 0
def dying(call):
    def wrapped(*a, **k):
        global count
        count += 1
        if count == {n}:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*a, **k)
    return wrapped
os.fsync, os.mkdir, os.rename, os.replace, os.rmdir, os.unlink = map(
    dying, (lambda handle: None, os.mkdir, os.rename, os.replace, os.rmdir, os.unlink))
index.save({path!r})
"""


def test_killed_at_any_step_of_saving(kind, folder, tmp_path):
    """One process for each of many steps: forks of one, so that it is quick."""
    index = example(kind, "new")
    old, new, seen = answer(example(kind, "old")), answer(index), set()
    for n in range(1, 200):
        pid = os.fork()
        if pid == 0:
            try:
                exec(DIE_AT.format(n=n, path=str(folder)), {"index": index})  # noqa: S102
            finally:
                os._exit(0)
        _, status = os.waitpid(pid, 0)
        found = answer(KINDS[kind].load(folder))
        assert found in (old, new), n
        seen.add(found == new)
        if not os.WIFSIGNALED(status):
            break
        if found == new:  # what the killed one left is cleared away
            example(kind, "old").save(folder)
            assert len(list(folder.glob("gen-*"))) == 1
    assert not os.WIFSIGNALED(status)
    assert seen == {True, False}
    assert n > 10
    assert len(list(folder.glob("gen-*"))) == 1


def test_killed_from_outside_at_any_moment(kind, folder):
    old, new = answer(example(kind, "old")), answer(example(kind, "new"))
    with running(kind, f"while True: index.save({str(folder)!r})") as process:
        go(process)
        time.sleep(0.05)
        for _ in range(20):  # readers beside a writer that never rests
            assert answer(KINDS[kind].load(folder)) in (old, new)
        process.send_signal(signal.SIGKILL)
    assert answer(KINDS[kind].load(folder)) in (old, new)
    example(kind, "old").save(folder)  # a dead process holds no lock
    assert answer(KINDS[kind].load(folder)) == old


PAUSED = """
import nearkin.index.folder as f
seal = f._seal
f._seal = lambda *a: (print("inside", flush=True), sys.stdin.readline(), seal(*a))[-1]
index.save({path!r})
"""


def test_two_processes_on_one_folder(kind, folder):
    with running(kind, PAUSED.format(path=str(folder))) as process:
        go(process)
        assert process.stdout.readline() == "inside\n"
        with pytest.raises(FolderBusyError, match=rf"another process \(pid {process.pid}\)"):
            example(kind, "third").save(folder)
        old = answer(example(kind, "old"))
        assert answer(KINDS[kind].load(folder)) == old  # readers are fine
        go(process)
        assert process.stdout.readline() == "done\n"
    assert answer(KINDS[kind].load(folder)) == answer(example(kind, "new"))


def test_a_full_disk_leaves_the_old_index(kind, folder):
    before = {path: path.read_bytes() for path in files(folder)}
    index = example(kind, "new")
    sizes = {path.stat().st_size for path in files(folder)}
    for limit in (0, 100, 300, 700, *(size * 3 // 4 for size in sizes if size > 900)):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                try:
                    index.save(folder)
                except OSError:
                    code = 42
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42, limit
        after = {path: path.read_bytes() for path in files(folder)}
        after.pop(folder / ".lock", None)
        assert after == {path: data for path, data in before.items() if path.name != ".lock"}
        assert answer(KINDS[kind].load(folder)) == answer(example(kind, "old"))


def test_an_interrupt_leaves_the_old_index_or_the_new_one(kind, folder, monkeypatch):
    old, new = answer(example(kind, "old")), answer(example(kind, "new"))
    real, calls = os.fsync, []

    def interrupted(handle):
        calls.append(handle)
        if len(calls) == stop:
            raise KeyboardInterrupt
        real(handle)

    monkeypatch.setattr(os, "fsync", interrupted)
    stop, done = 0, False
    while not done:
        stop += 1
        calls.clear()
        try:
            example(kind, "new").save(folder)
            done = True
        except KeyboardInterrupt:
            assert answer(KINDS[kind].load(folder)) in (old, new)
    assert stop > 10
    assert answer(KINDS[kind].load(folder)) == new
    assert len(list(folder.glob("gen-*"))) == 1


def test_a_moved_folder_still_loads(kind, folder, tmp_path):
    shutil.move(folder, tmp_path / "elsewhere")
    assert answer(KINDS[kind].load(tmp_path / "elsewhere")) == answer(example(kind, "old"))
