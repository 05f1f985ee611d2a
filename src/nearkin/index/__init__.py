"""Search: collections of objects that answer which of them are nearest by a learned metric."""

from typing import TYPE_CHECKING, Any

from nearkin.index.common import Found as Found
from nearkin.index.common import Index as Index
from nearkin.index.exact import ExactIndex as ExactIndex
from nearkin.index.folder import FolderBusyError as FolderBusyError
from nearkin.index.where import Where as Where

if TYPE_CHECKING:
    from nearkin.index.postgres import PostgresIndex as PostgresIndex


def __getattr__(name: str) -> Any:
    if name == "PostgresIndex":  # it needs an extra, so it is loaded when it is used
        try:
            from nearkin.index.postgres import PostgresIndex  # noqa: PLC0415
        except ImportError as error:
            hint = "PostgresIndex needs psycopg: pip install 'nearkin[postgres]'"
            raise ImportError(hint) from error
        return PostgresIndex
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
