"""Whether a process is well, for the probes of an orchestrator: `Health`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar, final

import attrs
import trio

from .field_checks import FLAG, FUNCTION, argument, instance_of, number
from .log_policy import logger
from .stopping import STOPPED

__all__ = ["Condition", "Health", "check_health"]

F = TypeVar("F", bound=Callable[[], Awaitable[Any]])

_FRESH: Final = 1.0
"""How long an answer is used again, in seconds: so the checks cost as much for a thousand probes as
for one."""

_STARTING: Final = "the server has not started"


def _names(reasons: Mapping[str, str]) -> str:
    return str(list(reasons))


@attrs.frozen
class Condition:
    """What `Health.ready` has found.

    Attributes:
        ready: Whether the process can do its work.
        reasons: Why not: texts by the names of the checks that failed, or by ``"server"``. They may
            have texts of exceptions, so they are for the log, and for those whom you trust.
    """

    ready: bool
    reasons: Mapping[str, str] = attrs.field(factory=dict, repr=_names)


@final
class Health:
    """Whether a process is live, and ready to serve.

    ``health = Health()`` and ``serve(..., health=health)``. The process is ready when all servers
    that were given the object accept connections, which they do when the lifespan of the
    application is entered; when none of them stops or has ended; and when all checks pass. Once one
    of them stops, the process is not ready for good. It is live as long as it can answer at all.

    Args:
        patience: How long a check may take, in seconds; then it has failed.
        explain: Whether pages name the checks that failed, with the texts of their errors. By
            default only the log has them: a page may be read by strangers.
    """

    def __init__(self, *, patience: float = 1.0, explain: bool = False) -> None:
        argument("patience", patience, number(above=0, finite=True))
        argument("explain", explain, FLAG)
        self.explain: Final = explain
        self.changed = trio.Event()
        """Set when a server begins or stops; then there is a new one."""
        self._patience: Final = patience
        self._checks: Final[list[Callable[[], Awaitable[Any]]]] = []
        self._lock: Final = trio.Lock()
        self._servers = 0
        self._up = 0
        self._stopping = False
        self._found: dict[str, str] = {}
        self._found_at: float | None = None

    def check(self, function: F) -> F:
        """Add a check: an async function without arguments. A decorator.

        The process is not ready while it raises or returns ``False``, which the log says when it
        begins and when it ends. All checks run at the same time, for a probe, at most once a
        second. Check what this process needs and others do not share: if all processes look at the
        same database, none is ready when it is down, and nothing is gained.
        """
        argument("function", function, FUNCTION)
        self._checks.append(function)
        return function

    async def ready(self) -> Condition:
        """Return whether the process can do its work.

        Checkpoint: if there are checks.
        If cancelled: the checks are cancelled.
        """
        reasons = {}
        if self._stopping:
            return Condition(False, {"server": STOPPED})
        if not self._up or self._up < self._servers:
            reasons["server"] = _STARTING
        if self._checks:
            async with self._lock:
                now = trio.current_time()
                if self._found_at is None or now - self._found_at >= _FRESH:
                    await self._ask()
        reasons |= self._found
        return Condition(not reasons, reasons)

    async def _ask(self) -> None:
        """Run all checks, and note which have failed."""
        found: dict[str, str] = {}
        async with trio.open_nursery() as nursery:
            for function in self._checks:
                nursery.start_soon(self._run, function, found)
        for name in found.keys() - self._found.keys():
            logger.warning("not ready: the check %s has failed: %s", name, found[name])
        for name in self._found.keys() - found.keys():
            logger.info("the check %s passes again", name)
        self._found = found
        self._found_at = trio.current_time()

    async def _run(self, function: Callable[[], Awaitable[Any]], found: dict[str, str]) -> None:
        name = getattr(function, "__name__", type(function).__name__)
        passed = True
        try:
            with trio.move_on_after(self._patience) as scope:
                passed = await function() is not False
        except Exception as error:  # of the application: it says what is wrong
            found[name] = f"{type(error).__name__}: {error}"
            return
        if scope.cancelled_caught:
            found[name] = f"it took more than {self._patience:g} s"
        elif not passed:
            found[name] = "it returned False"

    # -- for servers ------------------------------------------------------------------------

    def _begins(self) -> None:
        """A server begins to start."""
        self._servers += 1

    def _starts(self) -> None:
        """It accepts connections."""
        self._up += 1
        self._tell()

    def _stops(self) -> None:
        """It stops, or has ended."""
        self._stopping = True
        self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()


def check_health(health: Health | None) -> None:
    """Check the argument ``health`` of a server.

    Raises:
        TypeError: It is of a wrong type.
    """
    argument("health", health, instance_of(Health, none=True))
