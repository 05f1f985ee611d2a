"""Killed clients, two builders, a metric that changed, a server that went away."""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import psycopg
import pytest
from index_cases import Case, collection
from postgres_server import Server

from nearkin import Metric
from nearkin.index import PostgresIndex, Where
from nearkin.index.postgres_connection import IndexUnavailableError
from nearkin.index.postgres_schema import StaleIndexError

SOME = Case("some", n=400, K=6, M=3, clusters=3)
METRIC, ITEMS, QUERIES = collection(SOME)


@pytest.fixture
def index(postgres_url, request):
    name = request.node.name.removeprefix("test_")[:48]
    with PostgresIndex(METRIC, postgres_url, name) as index:
        yield index
        index.drop()


def keys(prefix, n=400):
    return [f"{prefix}{i}" for i in range(n)]


def prefixes(index):
    """Which of the collections that tests add a search meets, and how many objects."""
    found = index.search(QUERIES[:3], 500).ids
    counts = {sum(name is not None for name in row) for row in found}
    assert len(counts) == 1
    return {re.sub(r"\d+", "", name) for name in found.ravel() if name}, counts.pop()


CLIENT = """
    import sys
    sys.path.insert(0, {tests!r})
    from test_postgres_faults import ITEMS, METRIC, keys
    from nearkin.index import PostgresIndex, postgres, postgres_build, postgres_schema
    index = PostgresIndex(METRIC, {url!r}, {name!r})

    def stop_after(module, name):
        real = getattr(module, name)
        def stopping(*arguments):
            real(*arguments)
            print("here", flush=True)
            sys.stdin.readline()
        setattr(module, name, stopping)

    {body}
    print("done", flush=True)
"""


def client(index, body):
    """Run another process on the same index; it stops where the body tells it to."""
    code = textwrap.dedent(CLIENT).format(
        tests=str(Path(__file__).parent), url=index._database._url, name=index.name, body=body
    )
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def eventually(condition):
    """Wait for what the server does on its own."""
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


@pytest.mark.parametrize(
    ("body", "stop"),
    [
        ("index.add(ITEMS, keys('new'))", "postgres, 'copy_rows'"),
        ("index.replace(ITEMS, keys('new'))", "postgres_build, 'create_table'"),
        ("index.replace(ITEMS, keys('new'))", "postgres_build, 'copy_rows'"),
        ("index.replace(ITEMS, keys('new'))", "postgres_build, 'enter'"),
        ("index.replace(ITEMS, keys('new'))", "postgres_build, 'drop_table'"),
        ("index.build()", "postgres_build, 'drop_table'"),
        ("index.remove(keys('old', 100))", "postgres, '_locked'"),
    ],
)
def test_killed_while_it_changes_the_index(index, body, stop):
    index.add(ITEMS, keys("old"))
    process = client(index, f"stop_after({stop}); {body}")
    assert process.stdout.readline() == "here\n", process.stderr.read()
    if "drop_table" not in stop:  # then a reader waits until the table is gone, or is not
        assert prefixes(index) == ({"old"}, 400)
    kill(process)
    assert prefixes(index) == ({"old"}, 400)
    eventually(lambda: not tables_of(index) - {index._read().table})
    index.replace(ITEMS, keys("new"))  # nothing is left locked
    assert prefixes(index) == ({"new"}, 400)


def tables_of(index):
    with psycopg.connect(index._database._url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables").fetchall()
    return {name for (name,) in rows if name.startswith(index.name + "@")}


def test_killed_while_it_creates_the_index(index):
    process = client(index, "stop_after(postgres, 'copy_rows'); index.add(ITEMS, keys('new'))")
    assert process.stdout.readline() == "here\n", process.stderr.read()
    assert prefixes(index) == (set(), 0)
    kill(process)
    assert len(index) == 0
    index.add(ITEMS, keys("old"))
    assert prefixes(index) == ({"old"}, 400)


def test_two_builders(index):
    index.add(ITEMS, keys("old"))
    process = client(index, "stop_after(postgres_build, 'copy_rows'); index.build()")
    assert process.stdout.readline() == "here\n", process.stderr.read()
    for work in (index.build, index.drop, lambda: index.replace(ITEMS, keys("new"))):
        with pytest.raises(RuntimeError, match=r"is being built by another process; wait"):
            work()
    assert prefixes(index) == ({"old"}, 400)
    process.communicate("\n")
    assert process.returncode == 0
    index.build()


def test_what_is_added_during_a_build_is_not_lost(index):
    index.add(ITEMS, keys("old"))
    process = client(index, "stop_after(postgres_build, 'copy_rows'); index.build()")
    assert process.stdout.readline() == "here\n", process.stderr.read()
    late = threading.Thread(target=index.add, args=(ITEMS[:50], keys("late", 50)))
    late.start()
    process.communicate("\n")
    late.join(30)
    assert prefixes(index) == ({"old", "late"}, 450)


def test_readers_see_one_collection_while_it_is_replaced(index, postgres_url):
    index.replace(ITEMS, keys("a"))
    seen, failures, stop = set(), [], threading.Event()

    def read():
        with PostgresIndex(METRIC, postgres_url, index.name) as reader:
            while not stop.is_set():
                try:
                    names, n = prefixes(reader)
                    assert len(names) == 1
                    assert n == {"a": 400, "b": 300}[next(iter(names))] == len_of(reader, n)
                    seen.update(names)
                except BaseException as error:
                    failures.append(error)
                    raise

    def len_of(reader, n):
        return n if len(reader) in (300, 400) else -1

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(3):
        index.replace(ITEMS[:300], keys("b", 300))
        index.replace(ITEMS, keys("a"))
    stop.set()
    for reader in readers:
        reader.join(30)
    assert not failures
    assert seen == {"a", "b"}


def test_another_metric_is_refused(index, postgres_url):
    index.add(ITEMS, keys("old"))
    assert prefixes(index) == ({"old"}, 400)
    other = Metric(METRIC.weights * 2, METRIC.class_costs, METRIC.classes)
    with PostgresIndex(other, postgres_url, index.name) as stale:
        for work in (
            lambda: stale.search(QUERIES, 3),
            lambda: stale.add(ITEMS[:1], ["one"]),
            lambda: stale.remove(["old1"]),
            stale.build,
            lambda: len(stale),
            lambda: PostgresIndex.open(other, postgres_url, index.name),
        ):
            with pytest.raises(StaleIndexError, match=r"made with another metric \(its hash is"):
                work()
        stale.replace(ITEMS, keys("new"))
        assert prefixes(stale) == ({"new"}, 400)
    with pytest.raises(StaleIndexError, match="made with another metric"):
        prefixes(index)  # it has read the old one before


def test_an_index_of_a_later_version(index, postgres_url):
    index.add(ITEMS, keys("old"))
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE nearkin_indexes SET format = 2 WHERE name = %s", (index.name,))
    with pytest.raises(ValueError, match="has format 2; this nearkin reads format 1"):
        len(index)


def test_connection_lost_between_searches(index, postgres_url):
    index.add(ITEMS, keys("old"))
    assert prefixes(index) == ({"old"}, 400)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s",
            (index._database._connection.info.backend_pid,),
        )
    assert prefixes(index) == ({"old"}, 400)


def test_interrupted_search_leaves_the_connection_usable(index, monkeypatch):
    from nearkin.index import postgres

    index.add(ITEMS, keys("old"))

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(postgres, "copy_rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.add(ITEMS, keys("new"))
    with pytest.raises(ValueError, match="no metadata column"):
        index.search(QUERIES[:2], 3, Where(only={"no": ["such"]}))
    assert prefixes(index) == ({"old"}, 400)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:{}@127.0.0.1:1/db",
        "postgresql://me:{}@no-such-host.invalid/db",
        "postgresql://me@/db?host=/no/such/folder&password={}",
        "host=/no/such/folder password={} dbname=db",
        "postgresql://me:{}@127.0.0.1:port/db",
        "host=localhost pass word={}",
        "mysql://me:{}@localhost",
    ],
)
def test_errors_do_not_show_the_password(url):
    with pytest.raises((ValueError, IndexUnavailableError)) as caught:
        len(PostgresIndex(METRIC, url.format("hush%2Fhush"), "x"))
    shown = [caught.value]
    while shown[-1].__cause__ or shown[-1].__context__:
        shown.append(shown[-1].__cause__ or shown[-1].__context__)
    assert "hush" not in " ".join(map(str, shown))
    assert re.search("does not answer|the url cannot be read", str(caught.value))


def test_representation_does_not_show_the_password():
    index = PostgresIndex(METRIC, "postgresql://me:hush@localhost/db", "x")
    assert repr(index) == "PostgresIndex('x' in database 'db' at localhost)"


def test_server_stopped_and_started():
    folder = Path(tempfile.mkdtemp(prefix="nk"))
    server = Server(folder)
    server.create()
    try:
        with PostgresIndex(METRIC, server.url, "x") as index:
            index.add(ITEMS, keys("old"))
            server.stop()
            with pytest.raises(IndexUnavailableError, match="went away"):
                index.add(ITEMS, keys("new"))
            with pytest.raises(IndexUnavailableError, match=r"does not answer: .*Check that the"):
                index.search(QUERIES, 3)
            server.start()
            assert prefixes(index) == ({"old"}, 400)
    finally:
        server.stop()
        shutil.rmtree(folder)


def test_psycopg_missing():
    code = "import sys; sys.modules['psycopg'] = None\nimport nearkin.index\n"
    code += "try:\n    nearkin.index.PostgresIndex\nexcept ImportError as e:\n    print(e)"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert run.stdout == "PostgresIndex needs psycopg: pip install 'nearkin[postgres]'\n"
