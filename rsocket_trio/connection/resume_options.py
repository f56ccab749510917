"""The settings of resumption: `ClientResume` (client), `ServerResume` (server)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ..field_checks import COUNT, FLAG, SECONDS, instance_of, sized, whole
from ..protocol.retry import Retry
from .session_store import MemorySessionStore, SessionStore

if TYPE_CHECKING:
    from .resume_server import ServerSession

__all__ = ["ClientResume", "ServerResume", "check_resume", "kept_sessions"]

_MAX_TOKEN: Final = 0xFFFF
_RETAINED: Final = 16 * 2**20
_MIN_TOKEN: Final = 16
"""128 bits, as many as a random UUID has room for: too many to guess."""


@attrs.frozen(kw_only=True)
class ClientResume:
    """How a client keeps its session over the loss of a connection.

    Attributes:
        session_lifetime: How long the client tries to resume after a loss, in seconds. It should
            not be longer than the server keeps the session. 60 s.
        max_retained_size: How many bytes of frames are kept until the server is known to have
            received them. If more are needed, payloads wait, so this limits the bytes on the way.
            16 MiB.
        token: Identifies the session: 1 to 65535 bytes, unique, and hard to guess, since anyone
            who knows it can take the session over. 16 random bytes by default; servers may refuse
            shorter tokens (`ServerResume.min_token_size`).
        retry: When to dial again, to resume. At first within 0.1 s, then at growing intervals.
    """

    session_lifetime: float = attrs.field(default=60.0, validator=SECONDS)
    max_retained_size: int = attrs.field(default=_RETAINED, validator=COUNT)
    token: bytes | None = attrs.field(
        default=None, repr=False, validator=sized(bytes, 1, _MAX_TOKEN, none=True)
    )
    retry: Retry = attrs.field(factory=Retry, validator=instance_of(Retry))


def check_resume(resume: object, kind: type) -> None:
    """Check early the type of ``resume=`` of a client or a server.

    Raises:
        TypeError: It is neither of that type nor ``None``.
    """
    if resume is not None and not isinstance(resume, kind):
        name = kind.__name__
        raise TypeError(f"resume= takes {name}, not {type(resume).__name__}: write {name}()")


def _check_store(instance: object, attribute: object, store: object) -> None:
    if not isinstance(store, SessionStore):
        raise TypeError(f"store= takes a SessionStore, not {type(store).__name__}")


@attrs.frozen(kw_only=True)
class ServerResume:
    """How a server keeps the sessions of clients that ask for resumption.

    Attributes:
        session_lifetime: How long after a loss the client may come back, in seconds. 60 s.
        max_sessions: The maximum number of sessions at a time, connected or not, of all servers
            with these options. Further clients are refused with REJECTED_SETUP. Each session may
            use as much memory as a connection, and the retained frames. 1024.
        max_retained_size: As `ClientResume.max_retained_size`, for each session. 16 MiB.
        min_token_size: The minimum length of a token, in bytes. The client chooses the token, and
            anyone who knows it may take the session over, so shorter tokens are refused with
            REJECTED_SETUP. 16: tokens that can be guessed in time are shorter. Only the client
            can know how random its token is.
        store: Finds the sessions. Calls of `serve_transport` and `serve` with the same options, or
            the same store, resume each other's sessions.
        sole_process: Whether no other process accepts connections at the addresses of the server.
            Sessions live in one process: where several accept, most clients that come back would
            find another one, and lose theirs. So ``serve`` refuses sockets that others have opened
            (``fd://``, ``systemd://``) and ``reuse_port`` for resumption unless this is true.
    """

    session_lifetime: float = attrs.field(default=60.0, validator=SECONDS)
    max_sessions: int = attrs.field(default=1024, validator=COUNT)
    max_retained_size: int = attrs.field(default=_RETAINED, validator=COUNT)
    min_token_size: int = attrs.field(default=_MIN_TOKEN, validator=whole(1, _MAX_TOKEN))
    store: SessionStore = attrs.field(factory=MemorySessionStore, validator=_check_store)
    sole_process: bool = attrs.field(default=False, validator=FLAG)
    _kept: set[ServerSession] = attrs.field(init=False, factory=set, repr=False, eq=False)


def kept_sessions(options: ServerResume) -> set[ServerSession]:
    """The present sessions of all servers with these options; `Sessions` fills the set."""
    return options._kept  # noqa: SLF001 - a class of this module
