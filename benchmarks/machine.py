"""The machine and the versions that a benchmark ran with, in one line."""

from __future__ import annotations

import datetime
import platform
from importlib.metadata import version
from pathlib import Path


def describe(*packages):
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":")[1].strip()
            for line in info.read_text().splitlines()
            if "model name" in line
        ]
        cpu = f"{len(names)} x {names[0]}" if names else cpu
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    today = datetime.datetime.now(tz=datetime.UTC).date()
    return f"{today}, {cpu}, Python {platform.python_version()}, {versions}"
