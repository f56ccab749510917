"""How long an authentication holds: `Admitted`, and what runs under it: `Stay`.

A connection has a `Stay` for each authenticator that was asked about it. The calls that have no
authentication of their own run in cancel scopes of it, so its end is theirs, also of a stream that
waits for credit. To renew it moves all the deadlines.
"""

from __future__ import annotations

from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from ..errors import Unauthenticated
from ..escapes import size_only
from ..field_checks import number

if TYPE_CHECKING:
    from ..sockets.peer import OwnAdmission

__all__ = ["Admitted", "Bounded", "Stay"]

_OVER: Final = "the authentication has run out"


@attrs.frozen
class Admitted:
    """A principal whose authentication may run out; ``authenticate`` may return one.

    When it does, open calls end with `Unauthenticated`, streams too, and so do later ones.

    Attributes:
        principal: The principal.
        until: When it runs out, by trio's clock: ``trio.current_time() + 3600``. By default never.
    """

    principal: object = attrs.field(repr=size_only)  # some are tokens
    until: float = attrs.field(default=inf, validator=number())


class Stay:
    """What is open under one admission.

    Attributes:
        principal: Who was admitted.
        until: When that runs out, by trio's clock.
    """

    __slots__ = ("_reason", "_scopes", "principal", "until")

    def __init__(self, principal: Any, until: float) -> None:
        self.principal = principal
        self.until = until
        self._reason: str | None = None
        self._scopes: set[trio.CancelScope] = set()

    @property
    def is_over(self) -> bool:
        """Whether nothing may begin under it."""
        return self._reason is not None or trio.current_time() >= self.until

    def refusal(self) -> Unauthenticated:
        """Return the error of calls when it is over."""
        return Unauthenticated(_OVER if self._reason is None else self._reason)

    def renew(self, until: float) -> None:
        """Let it hold until another time."""
        self.until = until
        for scope in self._scopes:
            scope.deadline = until

    def end(self, reason: str) -> None:
        """End what is open."""
        self._reason = reason or _OVER
        for scope in self._scopes:
            scope.cancel(reason=self._reason)

    def open(self) -> trio.CancelScope:
        """Return a scope for a call, which `close` forgets."""
        scope = trio.CancelScope(deadline=self.until)
        self._scopes.add(scope)
        return scope

    def close(self, scope: trio.CancelScope) -> None:
        """Forget a scope."""
        self._scopes.discard(scope)


class Bounded:
    """The block around a call under a stay; it stands for the guard that has said so.

    Args:
        stay: The stay.
        among: Where the stay is while the call is open; ``None`` for that of a connection.
    """

    __slots__ = ("_among", "_scope", "_stay")

    def __init__(self, stay: Stay, among: set[OwnAdmission] | None = None) -> None:
        self._stay = stay
        self._among = among
        self._scope: trio.CancelScope | None = None

    def __call__(self, _call: object) -> Bounded:
        """Return the block."""
        return self

    async def __aenter__(self) -> None:
        if self._stay.is_over:
            raise self._stay.refusal()
        self._scope = self._stay.open()
        if self._among is not None:
            self._among.add(self._stay)
        self._scope.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the scope.

        Raises:
            Unauthenticated: It has cancelled the call.
        """
        scope = self._scope
        assert scope is not None  # it was entered
        self._stay.close(scope)
        if self._among is not None:
            self._among.discard(self._stay)
        scope.__exit__(kind, error, traceback)
        if scope.cancelled_caught:
            raise self._stay.refusal()
