"""A file of named arrays and a readable header, without pickle.

A zip of ``header.json`` and ``.npy`` members, stored uncompressed, so what a file declares is
what it holds. Writing replaces the old file in one step; reading checks sizes before it
allocates, and every number before it is used.
"""

from __future__ import annotations

import io
import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT_VERSION = 1
MAX_HEADER_BYTES = 2**24
MAX_BYTES = 2**33
HEADER = "header.json"
KINDS: dict[str, np.dtype[Any]] = {
    "float64": np.dtype("<f8"),
    "int64": np.dtype("<i8"),
    "uint8": np.dtype("u1"),
}


class BundleError(ValueError):
    """A file that cannot be read as what it claims to be."""


def write_bundle(path: str | Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write header and arrays to ``path``: afterwards the old file or the new one, never a mix."""
    arrays = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in arrays.items()}
    shapes = {
        name: {"shape": list(array.shape), "dtype": array.dtype.name}
        for name, array in arrays.items()
    }
    full = {"format": FORMAT_VERSION, **header, "arrays": shapes}
    text = json.dumps(full, indent=2, allow_nan=False)
    with (
        replaced(Path(path), binary=True) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        _member(archive, HEADER, text.encode())
        for name, array in arrays.items():
            buffer = io.BytesIO()
            plain = np.ascontiguousarray(array, dtype=KINDS[array.dtype.name])
            np.lib.format.write_array(buffer, plain, allow_pickle=False)
            _member(archive, f"{name}.npy", buffer.getvalue())


@contextmanager
def replaced(path: Path, *, binary: bool = False) -> Iterator[Any]:
    """Open a file that takes the place of ``path`` once it is written whole, and not before."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent} to write to.")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") if binary else os.fdopen(handle, "w", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _member(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    # a fixed date: the same content gives the same bytes
    archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), data)


def read_bundle(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of a file of this kind, or raise ``BundleError``."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    try:
        with zipfile.ZipFile(path) as archive:
            header = _read_header(archive, path, kind)
            arrays = {
                name: _read_array(archive, name, declared, path)
                for name, declared in header["arrays"].items()
            }
    except BundleError:
        raise
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        OSError,
        EOFError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
        RuntimeError,
        ValueError,
        struct.error,
    ) as error:
        raise BundleError(f"{path} is damaged, cut short or not a {kind} file: {error}") from error
    return header, arrays


def _read_header(archive: zipfile.ZipFile, path: Path, kind: str) -> dict[str, Any]:
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise BundleError(f"{path}: member {info.filename!r} is compressed; refused.")
    if archive.getinfo(HEADER).file_size > MAX_HEADER_BYTES:
        raise BundleError(f"{path}: the header is larger than {MAX_HEADER_BYTES} bytes; refused.")
    header = json.loads(archive.read(HEADER))
    if not isinstance(header, dict) or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else type(header).__name__
        raise BundleError(f"{path} is not a {kind} file (found {found!r}).")
    if header.get("format") != FORMAT_VERSION:
        raise BundleError(
            f"{path} has format version {header.get('format')!r}; this nearkin reads version "
            f"{FORMAT_VERSION}. Upgrade nearkin, or save the file again with this version."
        )
    return header


def _read_array(
    archive: zipfile.ZipFile, name: str, declared: dict[str, Any], path: Path
) -> NDArray[Any]:
    shape, dtype = tuple(int(n) for n in declared["shape"]), KINDS[declared["dtype"]]
    n_bytes = dtype.itemsize
    for n in shape:
        if n < 0:
            raise BundleError(f"{path}: array {name!r} has a negative size.")
        n_bytes *= n
    stored = archive.getinfo(f"{name}.npy").file_size
    if n_bytes > MAX_BYTES:
        raise BundleError(f"{path}: array {name!r} declares {n_bytes} bytes; refused.")
    if not n_bytes <= stored <= n_bytes + 2**16:
        raise BundleError(f"{path}: array {name!r} declares {n_bytes} bytes, holds {stored}.")
    buffer = io.BytesIO(archive.read(f"{name}.npy"))
    array = np.lib.format.read_array(buffer, allow_pickle=False)
    if array.shape != shape or array.dtype != dtype:
        raise BundleError(
            f"{path}: array {name!r} is {array.dtype} {array.shape}, the header says "
            f"{dtype} {shape}."
        )
    if not np.isfinite(array).all():
        raise BundleError(f"{path}: array {name!r} holds NaN or infinity.")
    array.flags.writeable = False
    return array
