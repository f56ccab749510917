"""Addresses that several processes serve at the same time: what cannot be done there."""

from __future__ import annotations

from collections.abc import Iterable

from ..field_checks import FLAG, argument
from ..uri import AddressKind, Uri, is_opened, kind_of, shown
from .workplace import workplace

__all__ = ["check_reuse_port", "check_unshared", "first_frame_is_hidden"]


def check_reuse_port(reuse_port: object, addresses: Iterable[Uri]) -> None:
    """Check the argument ``reuse_port`` of a server.

    Raises:
        TypeError: It is no bool.
        ValueError: It is given, and no address is TCP.
    """
    argument("reuse_port", reuse_port, FLAG)
    if reuse_port and not any(kind_of(uri) is AddressKind.INTERNET for uri in addresses):
        raise ValueError("reuse_port is given, but no address is TCP: leave it out")


def check_unshared(addresses: Iterable[Uri], *, reuse_port: bool, sole_process: bool) -> None:
    """Check that a client which resumes its session finds the process that has it.

    Raises:
        ValueError: It might find another one.
    """
    place = workplace()
    for uri in addresses:
        shared = is_opened(uri) or (reuse_port and kind_of(uri) is AddressKind.INTERNET)
        if shared and not sole_process:
            raise ValueError(
                f"resume is given, but other processes may accept at {shown(uri)}, which do not "
                "have the sessions of this one: leave resume out, or say that there are none with "
                "ServerResume(sole_process=True)"
            )
        if place is not None and place.serves(uri) and first_frame_is_hidden(uri):
            raise ValueError(
                f"resume is given, but over {shown(uri)} a client that resumes does not find the "
                "worker that has its session, as the parent cannot read its first frame: leave "
                "resume out, or serve tcp:// or unix://"
            )


def first_frame_is_hidden(uri: Uri) -> bool:
    """Return whether the first bytes of a connection are not those of its first frame."""
    return uri.is_encrypted or uri.is_websocket
