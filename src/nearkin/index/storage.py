"""Where an index lives on disk, together with its metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nearkin.bundle import BundleError
from nearkin.index.folder import Stored, read_folder, write_folder
from nearkin.metric import Metric
from nearkin.persistence import fingerprint, load_metric

METRIC = "metric.nearkin"


class Home:
    """The folder an index was read from or written to, and the generation that was."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._generations: dict[Path, str] = {}

    def write(
        self,
        path: str | Path,
        metric: Metric,
        header: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        files: Mapping[str, Callable[[Path], None]] | None = None,
    ) -> None:
        """Write everything to a folder, unless another process has changed it meanwhile."""
        full = {"kind": self.kind, "metric": fingerprint(metric), **header}
        place = Path(path).resolve()
        self._generations[place] = write_folder(
            path, full, arrays, {METRIC: metric.save, **(files or {})}, self._generations.get(place)
        )

    def read(
        self,
        path: str | Path,
        metric: Metric | None,
        readers: Mapping[str, Callable[[Path], Any]] | None = None,
        *,
        mmap: bool = False,
    ) -> tuple[Stored, Metric]:
        """Return what the folder holds, and its metric."""
        stored = read_folder(path, self.kind, {METRIC: load_metric, **(readers or {})}, mmap=mmap)
        made_with = stored.header.get("metric")
        if metric is not None and fingerprint(metric) != made_with:
            raise ValueError(
                f"{path} was made with another metric (its hash is {str(made_with)[:12]}, this "
                f"one's is {fingerprint(metric)[:12]}): distances by the two have nothing to do "
                "with each other. Load it without metric=, or build the index again."
            )
        with self.complaints(path):
            own: Metric = stored.files[METRIC]
            if fingerprint(own) != made_with:
                raise ValueError("the metric in it is not the one it was made with")
        self._generations[Path(path).resolve()] = stored.generation
        return stored, own if metric is None else metric

    @contextmanager
    def complaints(self, path: str | Path) -> Iterator[None]:
        """Turn what goes wrong with an odd folder into one clear error."""
        try:
            yield
        except BundleError:
            raise
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise BundleError(f"{path} is not a complete {self.kind}: {error}") from error
