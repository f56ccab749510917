"""What an application says about resumption: `Resume` (client), `ResumeOptions` (server)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import attrs
from attrs import validators as v

from ..protocol.retry import Retry

if TYPE_CHECKING:
    from .resume_server import ServerSession

__all__ = ["MemorySessionStore", "Resume", "ResumeOptions", "SessionStore", "check_resume"]

_MAX_TOKEN: Final = 0xFFFF
_RETAINED: Final = 16 * 2**20


def _check_token(instance: object, attribute: object, token: bytes | None) -> None:
    if token is not None and not 1 <= len(token) <= _MAX_TOKEN:
        raise ValueError(f"a token has 1 to {_MAX_TOKEN} bytes, not {len(token)}")


@attrs.frozen(kw_only=True)
class Resume:
    """How a client keeps its session over the loss of a connection.

    Attributes:
        session_lifetime: How long after a loss it tries, in seconds. Not longer than the server
            keeps the session. 60 s.
        max_retained_size: Bytes of frames kept until the server is known to have them. Payloads
            wait where more would be needed, so it bounds what is on the way. 16 MiB.
        token: Names the session: 1 to 65535 bytes, unique, and not to be guessed, since whoever
            knows it can take the session over. 16 random bytes by default.
        retry: When to dial again. At first within 0.1 s, then at growing intervals.
        fresh_session: Where the server refuses to resume, begin a new session, with a token and a
            SETUP of its own, and ask the client's acceptor again: open streams fail with
            `ConnectionLost`, as do requests until it has begun, and the requester goes on.
            Otherwise everything ends with `RejectedResume`.
    """

    session_lifetime: float = attrs.field(default=60.0, validator=v.gt(0))
    max_retained_size: int = attrs.field(default=_RETAINED, validator=v.ge(1))
    token: bytes | None = attrs.field(default=None, repr=False, validator=_check_token)
    retry: Retry = attrs.field(factory=Retry)
    fresh_session: bool = False


def check_resume(resume: object, kind: type) -> None:
    """Find out early what ``resume=`` of a client or a server is.

    Raises:
        TypeError: It is not of that kind, and not ``None``.
    """
    if resume is not None and not isinstance(resume, kind):
        name = kind.__name__
        raise TypeError(f"resume= takes {name}, not {type(resume).__name__}: write {name}()")


class SessionStore(Protocol):
    """Where a server finds a session by its token."""

    def get(self, token: bytes) -> ServerSession | None:
        """The session of that token, if there is one."""

    def put(self, token: bytes, session: ServerSession) -> None:
        """Keep a session. Its token is not in use."""

    def remove(self, token: bytes) -> None:
        """Forget a session, which is kept."""

    def __len__(self) -> int:
        """How many sessions are kept."""


class MemorySessionStore:
    """Keeps sessions in a dictionary: a session is bound to its process anyway."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, ServerSession] = {}

    def get(self, token: bytes) -> ServerSession | None:
        """The session of that token, if there is one."""
        return self._sessions.get(token)

    def put(self, token: bytes, session: ServerSession) -> None:
        """Keep a session."""
        self._sessions[token] = session

    def remove(self, token: bytes) -> None:
        """Forget a session."""
        del self._sessions[token]

    def __len__(self) -> int:
        return len(self._sessions)


@attrs.frozen(kw_only=True)
class ResumeOptions:
    """How a server keeps sessions of clients that ask for it.

    Attributes:
        session_lifetime: How long after a loss the client may come back, in seconds. 60 s.
        max_sessions: So many sessions at a time, connected or not; a client more is refused with
            REJECTED_SETUP. Each may hold all a connection may, and what is retained. 1024.
        max_retained_size: As `Resume.max_retained_size`, for each session. 16 MiB.
        store: Where sessions are found. Calls of `serve_transport` and `serve` with the same
            options, or the same store, resume each other's sessions.
    """

    session_lifetime: float = attrs.field(default=60.0, validator=v.gt(0))
    max_sessions: int = attrs.field(default=1024, validator=v.ge(1))
    max_retained_size: int = attrs.field(default=_RETAINED, validator=v.ge(1))
    store: SessionStore = attrs.field(factory=MemorySessionStore)
