"""Where a server finds its sessions by their tokens: `SessionStore`, `MemorySessionStore`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, final

from trio.lowlevel import checkpoint

from ..sealed import Sealed

if TYPE_CHECKING:
    from .resume_server import ServerSession

__all__ = ["MemorySessionStore", "ResumableSession", "SessionStore", "session_of"]


@final
class ResumableSession(metaclass=Sealed, given="a server gives one to its SessionStore"):
    """A session that a client may come back to: opaque, and the same as nothing but itself.

    It stands for what lives in this process (open streams, handlers, the frames kept for the
    client), so it means nothing in another one: it cannot be written down, copied or sent.
    """

    __slots__ = ("__weakref__", "_session")

    def __init__(self, session: ServerSession) -> None:
        self._session = session


def session_of(found: object) -> ServerSession | None:
    """The session that a store has given; ``None`` where that is none."""
    if isinstance(found, ResumableSession):
        return found._session  # noqa: SLF001 - of this module
    return None


class SessionStore(ABC):
    """Where a server finds sessions by their tokens; `ResumeOptions.store` takes one of yours.

    *What is stored*: a token, as the client has sent it, and its `ResumableSession`. Whoever knows
    a token may take the session over: treat it as a password. The session itself cannot leave the
    process, so a store may share sessions between the servers of one process, keep hashes of
    tokens instead of tokens, count, log, or tell a directory which process has which session, so
    that a proxy sends the client there. It cannot let another process go on with one.

    *When*: `add` is called for each SETUP that asks for resumption, before the acceptor is asked;
    `find` for each RESUME; `remove` when a session is over, once for each `add` that has not
    returned False, also where that has raised or was cancelled.

    *Atomicity*: any number of these calls may run at the same time, for one token too. Of all
    calls of `add` for a token one returns True, until what it has kept is removed.

    *Expiry*: none of the store's. A session ends by `ResumeOptions.session_lifetime` and is
    removed then. A store that forgets one before makes sure only that its client is refused; what
    the session costs it costs until its end.

    *Limits*: `ResumeOptions.max_sessions` is held by the server, whatever the store. A call that
    takes longer than `ConnectionConfig.setup_timeout` (`remove`: than
    `ConnectionConfig.close_timeout`) is cancelled, and has failed.

    *Failure*: whatever a method raises is logged. Then a SETUP is refused with REJECTED_SETUP, and
    a RESUME with CONNECTION_ERROR, which tells the client to try again; a session that could not
    be removed is over all the same.
    """

    @abstractmethod
    async def add(self, token: bytes, session: ResumableSession) -> bool:
        """Keep a session, unless there is one of that token.

        Returns:
            Whether it is kept; the client is refused where it is not.

        Checkpoint: as you like.
        If cancelled: kept or not; `remove` follows.
        """

    @abstractmethod
    async def find(self, token: bytes) -> ResumableSession | None:
        """The session that is kept under that very token, if there is one.

        Checkpoint: as you like.
        If cancelled: nothing has happened.
        """

    @abstractmethod
    async def remove(self, token: bytes, session: ResumableSession) -> None:
        """Forget a session; nothing happens where it is not what is kept under that token.

        Called in a scope that is shielded from cancellation.

        Checkpoint: as you like.
        If cancelled: kept or not; nobody asks again.
        """


class MemorySessionStore(SessionStore):
    """Keeps sessions in a dictionary. ``len(store)`` is how many."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, ResumableSession] = {}

    async def add(self, token: bytes, session: ResumableSession) -> bool:
        """See `SessionStore.add`.

        Checkpoint: always.
        If cancelled: it is not kept.
        """
        await checkpoint()
        return self._sessions.setdefault(token, session) is session

    async def find(self, token: bytes) -> ResumableSession | None:
        """See `SessionStore.find`.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        await checkpoint()
        return self._sessions.get(token)

    async def remove(self, token: bytes, session: ResumableSession) -> None:
        """See `SessionStore.remove`. It is gone before any other task runs.

        Checkpoint: always.
        If cancelled: it is gone.
        """
        if self._sessions.get(token) is session:
            del self._sessions[token]
        await checkpoint()

    def __len__(self) -> int:
        return len(self._sessions)
