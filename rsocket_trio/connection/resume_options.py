"""What an application says about resumption: `Resume` (client), `ResumeOptions` (server)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from attrs import validators as v

from ..protocol.retry import Retry
from .session_store import MemorySessionStore, SessionStore

if TYPE_CHECKING:
    from .resume_server import ServerSession

__all__ = ["Resume", "ResumeOptions", "check_resume", "kept_sessions"]

_MAX_TOKEN: Final = 0xFFFF
_RETAINED: Final = 16 * 2**20
_MIN_TOKEN: Final = 16
"""128 bits, as many as a random UUID has room for: nobody guesses that."""


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
            knows it can take the session over. 16 random bytes by default; servers may refuse
            fewer (`ResumeOptions.min_token_size`).
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


def _check_store(instance: object, attribute: object, store: object) -> None:
    if not isinstance(store, SessionStore):
        raise TypeError(f"store= takes a SessionStore, not {type(store).__name__}")


@attrs.frozen(kw_only=True)
class ResumeOptions:
    """How a server keeps sessions of clients that ask for it.

    Attributes:
        session_lifetime: How long after a loss the client may come back, in seconds. 60 s.
        max_sessions: So many sessions at a time, connected or not, of all servers with these
            options; a client more is refused with REJECTED_SETUP. Each may hold all a connection
            may, and what is retained. 1024.
        max_retained_size: As `Resume.max_retained_size`, for each session. 16 MiB.
        min_token_size: The client names its session, and whoever knows the name may take it over:
            one that is shorter is refused with REJECTED_SETUP, in bytes. 16: what can be guessed
            in time is shorter. How random a token is nobody but the client can know.
        store: Where sessions are found. Calls of `serve_transport` and `serve` with the same
            options, or the same store, resume each other's sessions.
    """

    session_lifetime: float = attrs.field(default=60.0, validator=v.gt(0))
    max_sessions: int = attrs.field(default=1024, validator=v.ge(1))
    max_retained_size: int = attrs.field(default=_RETAINED, validator=v.ge(1))
    min_token_size: int = attrs.field(
        default=_MIN_TOKEN, validator=[v.instance_of(int), v.ge(1), v.le(_MAX_TOKEN)]
    )
    store: SessionStore = attrs.field(factory=MemorySessionStore, validator=_check_store)
    _kept: set[ServerSession] = attrs.field(init=False, factory=set, repr=False, eq=False)


def kept_sessions(options: ResumeOptions) -> set[ServerSession]:
    """The sessions there are, of all servers with these options; for `Sessions`, which fills it."""
    return options._kept  # noqa: SLF001 - of this module
