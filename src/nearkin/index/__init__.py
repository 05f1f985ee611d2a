"""Search: collections of objects that answer which of them are nearest by a learned metric."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nearkin.index.common import Found as Found
from nearkin.index.common import Index as Index
from nearkin.index.exact import ExactIndex as ExactIndex
from nearkin.index.folder import FolderBusyError as FolderBusyError
from nearkin.index.where import Where as Where

if TYPE_CHECKING:
    from nearkin.index.approximate import ApproximateIndex as ApproximateIndex
    from nearkin.index.engines import HNSW as HNSW
    from nearkin.index.engines import IVF as IVF
    from nearkin.index.postgres import PostgresIndex as PostgresIndex

# what needs an extra is loaded when it is used: module, package, extra
_LATER = {
    "ApproximateIndex": ("approximate", "faiss", "ann"),
    "IVF": ("engines", "faiss", "ann"),
    "HNSW": ("engines", "faiss", "ann"),
    "PostgresIndex": ("postgres", "psycopg", "postgres"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, package, extra = _LATER[name]
    try:
        return getattr(import_module(f"{__name__}.{module}"), name)
    except ImportError as error:
        hint = f"{name} needs {package}: pip install 'nearkin[{extra}]'"
        raise ImportError(hint) from error
