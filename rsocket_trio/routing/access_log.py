"""Middleware that writes a line about each call: `AccessLog`."""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Final, Literal

import trio

from ..errors import Forbidden, Invalid, StreamError, Unauthenticated, code_name
from ..escapes import cut, escaped
from ..field_checks import COUNT, FUNCTION, argument, number, one_of, optional
from ..interactions.isolation import cancellation_of
from ..log_policy import RateLimit, logger
from ..transports.base import TransportInfo
from .call import AnyCall, Call, Outcome

__all__ = ["AccessLog"]

_MAX_TEXT: Final = 200
"""Characters of a field of a line."""
_BURST: Final = 10
_PERIOD: Final = 10.0
_QUOTED: Final = frozenset(' ="\\')
_TRACEPARENT: Final = "traceparent"
_TRACE: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", re.DOTALL
)
"""W3C Trace Context, "traceparent Header Field Values"; a later version may have more behind it."""

Fields = dict[str, object]


class AccessLog:
    """Middleware that writes a line about each call, of any interaction, when it has ended.

    ``Router(middleware=[AccessLog(print)])``: as the first of the router that is served it sees all
    calls, also those that are refused, that cannot be read or that have no handler, and connections
    that a guard of this router refuses. ``connect(..., middleware=[...])`` takes it too.

    A line has the time in UTC, ``interaction``, ``route``, ``peer``, ``seconds`` (on RSocket since
    the request has arrived), ``outcome``, and where there are any: ``principal``, ``error``, and
    ``items_in``, ``items``, ``size_in``, ``size`` (see `Traffic`), and ``trace``: the id of the
    trace of a request that has a valid ``traceparent`` of W3C Trace Context. ``route`` is the one
    of the handler, such as ``chat.{room}``, and empty without one: no text of the peer gets into a
    line but its address, escaped and cut, and that id; no data and no text of an error.

    What a stranger can cause is limited: calls without a handler, calls and connections whose login
    is refused, calls that are refused as they cannot be read, and beginnings of streams without a
    principal. Ten lines of each kind are written in ten seconds; then one line says how many others
    there were.

    Args:
        write: Gets each line, without a line end; e.g. `print`, or the method ``info`` of a logger.
            It must not wait.
        form: ``"logfmt"``, or ``"json"`` for an object in each line.
        principal: Returns what a line may say of a principal; it is not asked about ``None``.
            Without it lines have none, as some principals are tokens.
        begins: Streams and channels have a line when they begin, too, whose outcome is ``open``.
        every: One in so many calls has lines, chosen at random when the call begins, and its lines
            say so: ``every=100``. A call that fails has its line in any case.
        burst: Lines of a kind that a stranger can cause, in each period.
        period: In seconds.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: An argument is out of range.
    """

    measures: Final = True
    """See `AnyCall.traffic`."""

    def __init__(
        self,
        write: Callable[[str], object],
        *,
        form: Literal["logfmt", "json"] = "logfmt",
        principal: Callable[[object], str] | None = None,
        begins: bool = False,
        every: int = 1,
        burst: int = _BURST,
        period: float = _PERIOD,
    ) -> None:
        argument("write", write, FUNCTION)
        argument("form", form, one_of("logfmt", "json"))
        argument("principal", principal, optional(FUNCTION))
        argument("every", every, COUNT)
        argument("burst", burst, number(at_least=1))
        argument("period", period, number(above=0))
        self._write = write
        self._text = _json if form == "json" else _logfmt
        self._principal = principal
        self._begins = begins
        self._every = every
        self._burst = burst
        self._period = period
        # Each run of trio has a clock of its own.
        self._limits: trio.lowlevel.RunVar[RateLimit] = trio.lowlevel.RunVar("access log")

    async def __call__(self, call: AnyCall) -> AsyncIterator[None]:
        """See `Middleware`. Nothing here waits, so each call has one line at its end.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        began = call.began()
        chosen: Fields | None = {}
        if self._every > 1:
            chosen = None if random.randrange(self._every) else {"every": self._every}
        has_two = self._begins and call.interaction.is_stream and call.template is not None
        if has_two and chosen is not None:
            # A guard may refuse it yet, unless the connection was let in.
            kind = "open" if getattr(call, "principal", None) is None else None
            self._limited(kind, {**self._about(call), "outcome": "open", **chosen})
        try:
            yield
        finally:
            if chosen is not None or call.outcome is Outcome.FAILED:
                self._ended(call, trio.current_time() - began, chosen or {})

    def connection_refused(self, transport: TransportInfo, error: Exception) -> None:
        """Write a line about a connection that a guard refuses. A `Router` calls this."""
        code = getattr(error, "code", None)
        self._limited(
            "connection refused",
            {
                "event": "connection refused",
                "peer": transport.peer or transport.scheme,
                "error": code_name(code) if isinstance(code, int) else type(error).__name__,
            },
        )

    def settle(self, *, all_of_it: bool = False) -> None:
        """Write how many lines were left out in periods that are over. Each line does this too.

        Args:
            all_of_it: Of all periods, as the program is ending.
        """
        for each in self._limit().overdue(all_of_it=all_of_it):
            self._put({"event": "left out", "kind": each.text, "count": each.count})

    def _limit(self) -> RateLimit:
        try:
            return self._limits.get()
        except LookupError:
            limit = RateLimit(trio.current_time, burst=self._burst, interval=self._period)
            self._limits.set(limit)
            return limit

    def _limited(self, kind: str | None, fields: Fields) -> None:
        self.settle()
        if kind is None or self._limit().admits(kind, logging.INFO, lambda: str(kind)):
            self._put(fields)

    def _put(self, fields: Fields) -> None:
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        try:
            self._write(self._text({"time": stamp, **fields}))
        except Exception:  # of the application: the call goes on
            logger.exception("a line of the access log cannot be written")

    def _ended(self, call: AnyCall, seconds: float, chosen: Fields) -> None:
        fields = self._about(call)
        traffic = call.traffic
        if traffic is not None:
            fields["items_in"] = traffic.items_in or None
            fields["size_in"] = traffic.size_in
            fields["size"] = traffic.size_out
        fields["items"] = call.items if call.interaction.is_stream else None
        fields["seconds"] = round(seconds, 6)
        fields["outcome"] = str(call.outcome)
        error = call.error
        fields["error"] = None if error is None else _named(error)
        fields |= chosen
        self._limited(_kind(call), fields)

    def _about(self, call: AnyCall) -> Fields:
        transport = call.transport
        principal = getattr(call, "principal", None)
        shown: str | None = None
        if self._principal is not None and principal is not None:
            try:
                shown = str(self._principal(principal))
            except Exception:  # of the application: the line is written
                logger.exception("principal= of an AccessLog failed")
        return {
            "interaction": str(call.interaction),
            "route": call.template or "",
            "peer": transport.peer or transport.scheme,
            "principal": shown,
            "trace": _trace(call),
        }


def _trace(call: AnyCall) -> str | None:
    """Return the id of the trace that a request says to belong to."""
    if not isinstance(call, Call):
        return None
    pairs: tuple[tuple[str, str], ...] | None = getattr(call, "pairs", None)  # of ttrpc
    try:
        if pairs is not None:
            found = [value.encode() for name, value in pairs if name == _TRACEPARENT]
        elif call.entry(_TRACEPARENT) is None:
            return None
        else:
            entries = call.metadata.extra
            found = [each.content for each in entries if each.mime_type == _TRACEPARENT]
    except StreamError:  # the metadata cannot be read, which the handler says
        return None
    valid = _TRACE.fullmatch(found[0]) if len(found) == 1 else None
    return None if valid is None else valid[1].decode()


def _kind(call: AnyCall) -> str | None:
    """Return the kind of a line that a stranger can cause; ``None`` for others."""
    if call.outcome is not Outcome.FAILED:
        return None
    if call.template is None and type(call.error) is not Invalid:
        return "no handler"
    if isinstance(call.error, Unauthenticated | Forbidden):
        return "login refused"
    name = "" if call.error is None else _named(call.error)
    return "not readable" if name in _UNREADABLE else None


_UNREADABLE: Final = frozenset(["INVALID", "Internal"])


def _named(error: BaseException) -> str:
    """Return what a line says of an error: no text of it."""
    if isinstance(error, StreamError):
        return code_name(error.code)
    cancelled = cancellation_of(error)
    if cancelled is not None:
        return str(getattr(cancelled, "source", "cancelled"))
    return "left" if isinstance(error, GeneratorExit) else type(error).__name__


def _logfmt(fields: Fields) -> str:
    return " ".join([f"{name}={_value(each)}" for name, each in fields.items() if each is not None])


def _value(value: object) -> str:
    text = escaped(cut(str(value), _MAX_TEXT).replace("\\", "\\\\"))
    if text and _QUOTED.isdisjoint(text):
        return text
    return '"' + text.replace('"', '\\"') + '"'


def _json(fields: Fields) -> str:
    return json.dumps(
        {
            name: cut(each, _MAX_TEXT) if isinstance(each, str) else each
            for name, each in fields.items()
            if each is not None
        }
    )
