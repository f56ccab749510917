"""The servers of other wires, for `rsocket_trio.serve`: `wire_of`, `serve_other_wire`.

A wire is a protocol with addresses of its own. Its package is imported when an address needs it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from inspect import signature
from typing import Any, Final

from .uri import RSOCKET, Uri, owner_of, shown

__all__ = ["scheme_of", "serve_other_wire", "wire_of"]

_PACKAGES: Final = {"rsio": "rsocket_trio.rsio", "ttrpc": "rsocket_trio.ttrpc"}
"""The packages with a function `serve`, by the wire."""


def scheme_of(address: str | Uri) -> str:
    """Return the scheme of an address, in lower case; the address need not be valid."""
    return str(address).partition(":")[0].lower()


def wire_of(addresses: Sequence[str | Uri]) -> str:
    """Return the wire to which all the addresses belong; `RSOCKET` for all unknown schemes.

    Raises:
        ValueError: They belong to several wires.
    """
    wires: dict[str, str] = {}
    for address in addresses:
        wire = owner_of(scheme_of(address)) if isinstance(address, str | Uri) else None
        wires.setdefault(wire if wire in _PACKAGES else RSOCKET, str(address))
    if len(wires) > 1:
        calls = ", ".join(
            f"{_PACKAGES.get(wire, 'rsocket_trio')}.serve for {shown(address)}"
            for wire, address in wires.items()
        )
        raise ValueError(
            f"the addresses belong to several wires: serve each wire by a call of its own, in one "
            f"nursery: {calls}"
        )
    return next(iter(wires))


async def serve_other_wire(
    wire: str,
    target: Any,
    uris: Sequence[str | Uri],
    options: Mapping[str, Any],
    task_status: Any,
) -> None:
    """Serve by the server of another wire.

    Args:
        wire: The wire.
        target: What is served.
        uris: The addresses.
        options: The options that were given, and are not the default.
        task_status: Gets the server of that wire.

    Raises:
        ValueError: That wire has no such option; and the errors of its ``serve``.

    Checkpoint: always.
    If cancelled: as ``serve`` of that wire.
    """
    package = import_module(_PACKAGES[wire])
    serve: Callable[..., Awaitable[None]] = package.serve
    known = signature(serve).parameters
    for name in options:
        if name not in known:
            raise ValueError(f"{name} is given, but {wire} has no use for it: leave {name} out")
    await serve(target, *uris, **options, task_status=task_status)
