"""Public names that are loaded when they are first used, so that ``nearkin --help`` is quick."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def public_names(package: str, stub: Path) -> tuple[list[str], Callable[[str], Any]]:
    """Return the names that a package's stub imports, and the function that loads one."""
    homes = {
        alias.name: node.module
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        if home == package:  # a part of the package, such as nearkin.index
            return import_module(f"{package}.{name}")
        return getattr(import_module(home), name)

    return sorted(homes), load
