"""Where the collectors of a query are: `Address`, `collector_address`, `watch`.

An item of the option ``collectors`` is an address; or it says where addresses are: in a file, or
with the addresses of a name. These are asked for again with each trigger.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from ...uri import parse_uri, shown

if TYPE_CHECKING:
    from ...pool import Target, Watch

__all__ = ["DEFAULT_PORT", "Address", "addresses_of", "collector_address", "is_list", "watch"]

DEFAULT_PORT: Final = 7878
"""The port of a collector's readers, if an address has none."""

_FILE: Final = "file:"
_DNS: Final = "dns:"


class Address(NamedTuple):
    """Where a collector is.

    Attributes:
        uri: Its address.
        ip: Which of the IP addresses of its host is dialled; empty for any.
    """

    uri: str
    ip: str = ""

    def __str__(self) -> str:
        return f"{shown(self.uri)} ({self.ip})" if self.ip else shown(self.uri)


def collector_address(text: str) -> str:
    """Return an item of the option ``collectors`` as it is kept.

    Raises:
        ValueError: It is none.
    """
    try:
        if text.startswith(_FILE):
            return _FILE + _path(text.removeprefix(_FILE))
        if text.startswith(_DNS):
            address = f"{_DNS}{_uri(text.removeprefix(_DNS))}"
            watch(address)
            return address
        return _uri(text)
    except ValueError as error:
        raise ValueError(f"the option collectors: {error}") from None


def _path(text: str) -> str:
    if not text.strip("/"):
        raise ValueError("file: needs a path, as in file:/etc/collectors")
    path = text.removeprefix("//") if text.startswith("///") else text
    return os.path.abspath(os.path.expanduser(path))


def _uri(text: str) -> str:
    """Return a URI; ``host:port`` and ``host`` are addresses too."""
    if "://" not in text:
        has_port = text.rpartition("]")[2].count(":") == 1
        text = f"tcp://{text}" if has_port else f"tcp://{text}:{DEFAULT_PORT}"
    return str(parse_uri(text))


def is_list(item: str) -> bool:
    """Return whether an item says where addresses are, and is none itself."""
    return item.startswith((_FILE, _DNS))


def watch(item: str) -> Watch:
    """Return what asks for the addresses that an item means.

    Raises:
        ValueError: It is no list, or the name cannot be asked for.
    """
    # Only the process that plans asks; a task that imports this does not need pools.
    from ...pool import dns, target_file

    kind, _, place = item.partition(":")
    return dns(place) if kind == "dns" else target_file(place)


def addresses_of(targets: tuple[Target, ...]) -> list[Address]:
    """Return the addresses that a question has found."""
    return [Address(str(each.at), each.address) for each in targets]
