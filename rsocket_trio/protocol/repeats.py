"""When a request is sent once more: `Repeats`, `Hedge`."""

from __future__ import annotations

from typing import Any, Final

import attrs

from ..errors import RSocketError
from ..field_checks import instance_of, number, optional
from .budget import Budget
from .circuit import Circuit
from .retry import Retry

__all__ = ["Hedge", "Repeats"]

_TWICE: Final = Retry(jitter=1, max_attempts=2)


@attrs.frozen(kw_only=True)
class Hedge:
    """When a request that is not answered yet is sent a second time, beside the first.

    The first answer counts, and the other request is cancelled at the peer.

    Attributes:
        after: After so many seconds. ``None``: after the time in which ``part`` of the last 128
            requests of the same route were answered, once there were 20.
        part: See ``after``.
    """

    after: float | None = attrs.field(default=None, validator=optional(number(at_least=0)))
    part: float = attrs.field(default=0.95, validator=number(above=0, at_most=1))


def _errors(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    kinds = value if isinstance(value, tuple) else (value,)
    wrong = [
        kind for kind in kinds if not (isinstance(kind, type) and issubclass(kind, RSocketError))
    ]
    if wrong or kinds is not value:
        found = type(wrong[0] if wrong else value).__name__
        raise TypeError(
            f"{type(instance).__name__}.{attribute.name} must be a tuple of classes of "
            f"RSocketError, not {found}"
        )


@attrs.frozen(kw_only=True)
class Repeats:
    """When a client sends a request once more.

    What may have been processed is repeated only where the call says ``idempotent=True``.

    Attributes:
        retry: The waits before repeats, and how many there are. By default two, the first within
            0.1 s. A server that says when to retry is asked then; if that is later than
            `Retry.max_delay`, the caller gets the error.
        budget: Bounds the repeats of a client, for each of its routes.
        hedge: Send idempotent requests with one answer a second time while the first waits, from
            the same budget; by default they are not.
        circuit: Fail at once with `CircuitOpen` while the server fails all requests; ``None``: do
            not.
        also: Errors that are repeated besides those that are `RSocketError.transient`, e.g.
            ``(ApplicationError,)``, where the call is idempotent. They count as failures of the
            server then.
    """

    retry: Retry = attrs.field(default=_TWICE, validator=instance_of(Retry))
    budget: Budget = attrs.field(factory=Budget, validator=instance_of(Budget))
    hedge: Hedge | None = attrs.field(default=None, validator=instance_of(Hedge, none=True))
    circuit: Circuit | None = attrs.field(
        factory=Circuit, validator=instance_of(Circuit, none=True)
    )
    also: tuple[type[RSocketError], ...] = attrs.field(default=(), validator=_errors)
