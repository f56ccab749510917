"""Which peers may connect: `Allow`, an allow-list of users and groups.

A server asks in the task of the connection, behind the TLS handshake and before the wire's own, so
neither a slow answer nor a peer that is refused delays the accepting of others.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

import attrs
import trio

from ..errors import ConnectFailed
from ..field_checks import FLAG, listed
from ..uri import AddressKind, Uri, kind_of, shown
from .byte_stream import TransportInfo
from .socket_facts import PeerCredentials

__all__ = ["Allow", "Allowed", "NotAllowed", "admit", "check_allowed"]

Allowed: TypeAlias = Callable[[TransportInfo], bool | Awaitable[bool]]
"""Answers whether the peer of a connection may use the server: an `Allow`, or your own function or
async function. An exception refuses the peer, and is logged."""


class NotAllowed(ConnectFailed):
    """The peer of a connection may not use the server."""


_PASSED_ON: Final = (
    Exception,
    BaseExceptionGroup,
    trio.Cancelled,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
)
"""What is raised as it is: the task of the connection knows what to do with it."""


def _ids(name: str, values: Iterable[int]) -> frozenset[int]:
    ids = frozenset(listed(name, values, int))
    for each in ids:
        if isinstance(each, bool) or not 0 <= each < 2**32 - 1:
            raise ValueError(f"{each!r} in {name} is not an id of a user, group or machine")
    return ids


def _uids(values: Iterable[int]) -> frozenset[int]:
    return _ids("Allow.uids", values)


def _gids(values: Iterable[int]) -> frozenset[int]:
    return _ids("Allow.gids", values)


def _cids(values: Iterable[int]) -> frozenset[int]:
    return _ids("Allow.cids", values)


@attrs.frozen(kw_only=True)
class Allow:
    """Lets those peers connect that one of its lists names, and no others.

    Users and groups are known on Unix sockets only (`PeerCredentials`), machines on vsock only. A
    peer of which they are not known is refused, as is every peer on TCP.

    Attributes:
        uids: Users, by their ids.
        gids: Groups, by their ids: only the group of the peer's process counts, not the further
            groups of its user.
        same_user: Whether the user of this process may connect (its effective user id).
        root: Whether the user 0 may connect.
        cids: Virtual machines by their ids on vsock; 2 is the host.

    Raises:
        TypeError: A field is of a wrong type: ids are numbers, and not names.
        ValueError: An id is not one, or nobody may connect.
    """

    uids: frozenset[int] = attrs.field(default=frozenset(), converter=_uids)
    gids: frozenset[int] = attrs.field(default=frozenset(), converter=_gids)
    same_user: bool = attrs.field(default=False, validator=FLAG)
    root: bool = attrs.field(default=False, validator=FLAG)
    cids: frozenset[int] = attrs.field(default=frozenset(), converter=_cids)

    def __attrs_post_init__(self) -> None:
        if not (self.uids or self.gids or self.same_user or self.root or self.cids):
            raise ValueError("nobody may connect: give uids, gids, same_user, root or cids")

    def __call__(self, info: TransportInfo) -> bool:
        """Return whether this peer may connect."""
        credentials = info.extra.get("peer_credentials")
        if isinstance(credentials, PeerCredentials):
            return self._admits(credentials)
        return info.extra.get("peer_cid") in self.cids

    def _admits(self, peer: PeerCredentials) -> bool:
        return (
            peer.uid in self.uids
            or peer.gid in self.gids
            or (self.root and peer.uid == 0)
            or (self.same_user and peer.uid == os.geteuid())
        )


def check_allowed(allow: object, addresses: Iterable[Uri] = ()) -> None:
    """Check the argument ``allow`` of a server, when it starts.

    Raises:
        TypeError: It cannot be called.
        ValueError: It is an `Allow`, and one of the addresses is TCP: nobody could connect there.
    """
    if isinstance(allow, Allow):
        for uri in addresses:
            if kind_of(uri) is AddressKind.INTERNET:
                raise ValueError(
                    f"allow is an Allow, and lets nobody connect to {shown(uri)}, as the users of "
                    "TCP are not known: serve this address by a call of its own, or give a function"
                )
    elif allow is not None and not callable(allow):
        raise TypeError(f"allow must be an Allow or a function, not {type(allow).__name__}")


async def admit(allow: Allowed, info: TransportInfo) -> None:
    """Ask whether the peer of a connection may use the server.

    Args:
        allow: Whom to ask.
        info: The facts about the connection.

    Raises:
        NotAllowed: It may not; the text says who the peer is.
        TypeError: The answer is not a bool.
        RuntimeError: ``allow`` raised what is no `Exception`.

    Checkpoint: as ``allow`` if it is async; else never.
    If cancelled: nothing was decided.
    """
    try:
        answer = allow(info)
        if inspect.isawaitable(answer):
            answer = await answer
    except _PASSED_ON:
        raise
    except BaseException as error:  # e.g. the panic of an extension; it must not end the server
        raise RuntimeError(f"allow raised {type(error).__name__}") from error
    if not isinstance(answer, bool):
        # A function that forgets its `return` must not refuse, and one that returns a
        # coroutine's truth must not admit, without a word.
        raise TypeError(f"allow must return a bool, not {type(answer).__name__}")
    if not answer:
        raise NotAllowed(f"{_name(info)} may not connect")


def _name(info: TransportInfo) -> str:
    credentials = info.extra.get("peer_credentials")
    if isinstance(credentials, PeerCredentials):
        return f"process {credentials.pid} of user {credentials.uid}, group {credentials.gid},"
    if "peer_credentials" in info.extra:
        return "a process that the kernel does not tell"
    return f"the peer {info.peer}" if info.peer else "the peer"
