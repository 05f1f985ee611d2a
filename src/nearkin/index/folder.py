"""A folder of arrays on disk that is replaced in one step, and checked before it is used.

Each save writes a new generation beside the old one and then renames one small file, ``CURRENT``,
which names the generation and the SHA-256 of its manifest; the manifest has that of every file. A
process that is killed leaves the old generation in force. One process writes at a time; any number
may read, and a reader keeps its generation as long as it has the files open.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.bundle import BundleError, replaced

FORMAT_VERSION = 1
CURRENT, MANIFEST, LOCK = "CURRENT", "manifest.json", ".lock"
GENERATION = re.compile(r"(gen-[0-9a-f]{16}) ([0-9a-f]{64})\n")
OURS = re.compile(rf"{CURRENT}|\.{CURRENT}\..*|\{LOCK}|gen-[0-9a-f]{{16}}")
MAX_MANIFEST_BYTES = 2**26
SMALLEST_MAPPED = 2**14  # bytes; an array without rows cannot be mapped at all
READ_AGAIN = 20  # times, when a writer replaces what is being read


class FolderBusyError(RuntimeError):
    """A folder that another process is writing, or has written since it was read."""


@dataclass(frozen=True, eq=False)
class Stored:
    """What a folder holds; ``files`` are what was read from those that are no arrays."""

    generation: str
    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    files: dict[str, Any]


def write_folder(
    path: str | Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    files: Mapping[str, Callable[[Path], None]],
    replaces: str | None = None,
) -> str:
    """Write a new generation and return its name: afterwards the old one or the new one.

    ``files`` are functions that write a file to a path. ``replaces`` is the generation this one
    was made from: if the folder has another one by now, nothing is written.
    """
    path = Path(path)
    _make(path)
    with _writing(path):
        found = _current(path)[0] if (path / CURRENT).exists() else None
        if replaces is not None and found != replaces:
            raise FolderBusyError(
                f"{path} was changed by another process since it was read; load it again, or save "
                "to another folder. Nothing was written."
            )
        _remove_generations(path, keep=found)  # what a killed process left
        generation = f"gen-{secrets.token_hex(8)}"
        folder = path / generation
        try:
            folder.mkdir()
            for name, array in arrays.items():
                with (folder / f"{name}.npy").open("wb") as file:
                    np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
            for name, write in files.items():
                write(folder / name)
            digest = _seal(folder, header)
            _sync(path)
            with replaced(path / CURRENT) as file:
                file.write(f"{generation} {digest}\n")
        except BaseException:
            if not (path / CURRENT).exists() or _current(path)[0] != generation:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        _sync(path)
        _remove_generations(path, keep=generation)
    return generation


def read_folder(
    path: str | Path, kind: str, readers: Mapping[str, Callable[[Path], Any]], *, mmap: bool = False
) -> Stored:
    """Return what a folder of this kind holds, every byte checked, or raise ``BundleError``.

    ``readers`` are functions that read a file by name, once its content was checked.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such folder.")
    if not (path / CURRENT).is_file():
        raise BundleError(f"{path} holds no complete {kind}: there is no file {CURRENT} in it.")
    for _ in range(READ_AGAIN):
        generation, digest = _current(path)
        try:
            return _read(path / generation, digest, kind, readers, mmap)
        except (FileNotFoundError, BundleError) as error:
            if _current(path) == (generation, digest):
                if isinstance(error, BundleError):
                    raise
                raise BundleError(f"{path} is damaged: {error}") from error
    raise FolderBusyError(f"{path} is being replaced faster than it can be read; try again.")


def _read(
    folder: Path,
    digest: str,
    kind: str,
    readers: Mapping[str, Callable[[Path], Any]],
    mmap: bool,
) -> Stored:
    manifest = folder / MANIFEST
    if manifest.stat().st_size > MAX_MANIFEST_BYTES or _sha256(manifest) != digest:
        raise BundleError(f"{manifest} is damaged: it is not what was written.")
    header = json.loads(manifest.read_bytes())
    if header.get("kind") != kind:
        raise BundleError(f"{folder.parent} is not a {kind} (found {header.get('kind')!r}).")
    if header.get("format") != FORMAT_VERSION:
        raise BundleError(
            f"{folder.parent} has format version {header.get('format')!r}; this nearkin reads "
            f"version {FORMAT_VERSION}. Upgrade nearkin, or build the index again."
        )
    arrays, files = dict[str, NDArray[Any]](), dict[str, Any]()
    for name, declared in header["files"].items():
        part = folder / name
        if part.parent != folder:
            raise BundleError(f"{manifest}: {name!r} is not a file name.")
        if part.stat().st_size != declared["bytes"] or _sha256(part) != declared["sha256"]:
            raise BundleError(f"{part} is damaged or cut short: it is not what was written.")
        if part.suffix == ".npy":
            arrays[part.stem] = _array(part, mmap)
        elif name in readers:
            files[name] = readers[name](part)
    return Stored(folder.name, header, arrays, files)


def _array(path: Path, mmap: bool) -> NDArray[Any]:
    mapped = mmap and path.stat().st_size >= SMALLEST_MAPPED
    try:
        array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise BundleError(f"{path} is no plain array: {error}") from error
    plain: NDArray[Any] = array.view(np.ndarray)
    plain.flags.writeable = False
    return plain


def _current(path: Path) -> tuple[str, str]:
    match = GENERATION.fullmatch((path / CURRENT).read_bytes()[:200].decode("ascii", "replace"))
    if match is None:
        raise BundleError(f"{path / CURRENT} is damaged: it names no generation.")
    return match[1], match[2]


def _seal(folder: Path, header: Mapping[str, Any]) -> str:
    """Write the manifest, see everything to the disk, and return the manifest's hash."""
    parts = {}
    for part in sorted(folder.iterdir()):
        parts[part.name] = {"bytes": part.stat().st_size, "sha256": _sha256(part)}
        _sync(part)
    full = {"format": FORMAT_VERSION, **header, "files": parts}
    data = json.dumps(full, indent=1, allow_nan=False).encode()
    (folder / MANIFEST).write_bytes(data)
    _sync(folder / MANIFEST)
    _sync(folder)
    return hashlib.sha256(data).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot, and keeps names in order by itself
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make(path: Path) -> None:
    """Make the folder, and refuse one that holds anything else."""
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{path} is a file; an index is a folder. Choose another name.")
    if path.exists():
        foreign = sorted(part.name for part in path.iterdir() if not OURS.fullmatch(part.name))
        if foreign:
            raise FileExistsError(
                f"{path} holds other things, such as {foreign[0]!r}; choose another folder."
            )
    elif not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent} to write to.")
    path.mkdir(exist_ok=True)


def _remove_generations(path: Path, keep: str | None) -> None:
    for part in path.iterdir():
        if part.name != keep and part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        elif part.name.startswith(f".{CURRENT}."):
            part.unlink(missing_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system takes back from a process that dies."""
    try:
        import fcntl  # noqa: PLC0415
    except ImportError:  # Windows: no lock, and replacement in one step all the same
        yield
        return
    with (path / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise FolderBusyError(
                f"{path} is being written by another process (pid {file.read().strip() or '?'}); "
                "try again once it is done. Nothing was written."
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
