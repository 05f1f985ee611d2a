"""Search: collections of objects that answer which of them are nearest by a learned metric."""

from nearkin.index.common import Found as Found
from nearkin.index.common import Index as Index
from nearkin.index.exact import ExactIndex as ExactIndex
from nearkin.index.folder import FolderBusyError as FolderBusyError
from nearkin.index.where import Where as Where
