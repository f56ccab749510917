"""The handler of `logging`: `LumberjackHandler`."""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias
from weakref import WeakSet

import attrs

from ...field_checks import FUNCTION, argument, optional
from ...log_policy import reached_handlers
from ...protocol.retry import Retry
from ...sockets.tls import check_context
from ...uri import Uri
from ..addresses import lumberjack_uris
from ..client.config import ShipperConfig, check_shipper_config
from ..client.event_encoder import EventEncoder
from ..client.shipper import connect
from ..wire.limits import LumberjackLimits
from .courier import Pace
from .drops import last_resort
from .json_text import encode_event
from .pairs import as_pairs
from .pipeline import Pipeline
from .record import EventMaker
from .settings import Settings
from .worker import is_own
from .workers_end import settle_before_end

__all__ = ["LogStatistics", "LumberjackHandler", "ToEvent"]

ToEvent: TypeAlias = Callable[[logging.LogRecord, dict[str, object]], Mapping[str, object]]
"""Changes the event of a record, or returns another one."""

_MAX_NESTED: Final = 4
"""Records that one thread may log while it formats another one: the `str` of an argument may log.
A signal handler may also come in between."""


@attrs.frozen(kw_only=True)
class LogStatistics:
    """Numbers about a `LumberjackHandler`, of this process.

    At any time ``records`` is the sum of ``acknowledged``, ``dropped`` and ``queued``.

    Attributes:
        records: Records that came to the handler.
        acknowledged: Records that a receiver has acknowledged.
        acknowledged_size: The bytes of their events.
        queued: Records that wait, or are being sent.
        queued_size: The bytes of their events, and 64 bytes more for each.
        sending: Those of ``queued`` that are being sent.
        dropped: Records that were dropped.
        dropped_by: The same by reason: ``full`` (no room for a new record), ``oldest`` (dropped to
            make room), ``too_large``, ``invalid`` (no event could be made), ``nested`` (logged
            while the same thread formatted other records), ``undeliverable`` (the attempts of
            ``config.retry`` are used up), ``unsent`` (not acknowledged when the handler was
            closed) and ``closed`` (logged later).
    """

    records: int
    acknowledged: int
    acknowledged_size: int
    queued: int
    queued_size: int
    sending: int
    dropped: int
    dropped_by: Mapping[str, int]


class LumberjackHandler(logging.Handler):
    """Ships log records to Logstash, to `serve`, or to another Lumberjack server.

    ``logging.getLogger().addHandler(LumberjackHandler("lumberjack://logs.example.org"))``

    Records become events in the thread that logs, and wait in memory. A thread of the handler's own
    sends them; it starts with the first record. So a program never waits for the network, unless
    ``on_full`` is ``"block"``. Any thread may log, also one that runs trio or asyncio, and signal
    handlers. A forked child sends its own records only, by a thread of its own.

    An event is sent again if its connection is lost before the acknowledgement, so it can arrive
    twice. Records that are dropped are counted. Their number is reported to the receiver, by an
    event with the field ``log.dropped``, and on standard error.

    Args:
        uris: See `connect`.
        config: How events are shipped. In a configuration of `logging.config.dictConfig` it may be
            a mapping with the attributes of `ShipperConfig`.
        ssl_context: See `connect`.
        level: Records below this level are ignored.
        max_records: Records that wait or are being sent, at most.
        max_size: The bytes that they may take, each with 64 bytes more.
        max_event_size: The largest event, in bytes of JSON. Longer texts in it are cut, and
            ``log.flags`` is then ``["truncated"]``.
        on_full: What happens to a record if there is no room: ``"drop_newest"`` drops it,
            ``"drop_oldest"`` drops the oldest records that wait, and ``"block"`` makes the thread
            that logs wait for room. Do not use ``"block"`` in an event loop.
        block_timeout: ``"block"`` waits this long, in seconds, and then drops the record.
        fields: Fields that each event gets. They replace the fields ``host`` and ``ecs``.
        to_event: Called with each record and its event, in the thread that logs. It returns the
            event to send.
        linger: A record waits this long for others, in seconds, so that they are sent together.
        close_timeout: `close`, `flush` and so `logging.shutdown` wait this long, in seconds, for
            the acknowledgements of all records. The rest is dropped.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: An argument has an impossible value.
    """

    def __init__(
        self,
        uris: str | Uri | Sequence[str | Uri],
        *,
        config: ShipperConfig | Mapping[str, Any] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        level: int | str = logging.NOTSET,
        max_records: int = 65536,
        max_size: int = 64 * 2**20,
        max_event_size: int = 2**20,
        on_full: Literal["drop_newest", "drop_oldest", "block"] = "drop_newest",
        block_timeout: float = 1.0,
        fields: Mapping[str, object] | None = None,
        to_event: ToEvent | None = None,
        linger: float = 0.2,
        close_timeout: float = 5.0,
    ) -> None:
        settings = Settings(
            max_records=max_records,
            max_size=max_size,
            max_event_size=max_event_size,
            on_full=on_full,
            block_timeout=block_timeout,
            fields=_as_dict(fields or {}),
            linger=linger,
            close_timeout=close_timeout,
        )
        argument("to_event", to_event, optional(FUNCTION))
        shipping = _as_config(config)
        parsed = lumberjack_uris(uris)
        check_context(ssl_context, parsed, server_side=False)
        self._settings: Final = settings
        self._config: Final = shipping
        encoder = EventEncoder(shipping.version, shipping.compression_level, shipping.limits)
        self._max_event_size: Final = min(max_event_size, encoder.max_size)
        self._to_event: Final = to_event
        self._events: Final = EventMaker(settings.fields)
        if self._encode_notice("n" * 1000, {}) is None:
            raise ValueError(f"fields are too large for max_event_size ({self._max_event_size})")
        self._connect: Final = partial(connect, parsed, config=shipping, ssl_context=ssl_context)
        hosts = len(parsed) if shipping.load_balance else 1
        self._pace: Final = _pace(settings, shipping, shipping.pipelining * hosts)
        self._title: Final = f"LumberjackHandler({', '.join(map(str, parsed))})"
        self._local: Final = threading.local()
        self._pipeline = self._new_pipeline()
        super().__init__(level)
        _handlers.add(self)

    def _new_pipeline(self) -> Pipeline:
        return Pipeline(self._settings, self._connect, self._pace, self._encode_notice, self._title)

    # `logging` would hold a lock of the handler while it closes it, and that is while the thread of
    # the handler still sends, and may log. No lock is needed: the pipeline has its own.

    def createLock(self) -> None:  # noqa: N802 - a name of `logging`
        """Make no lock: see `logging.Handler.createLock`."""
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Ship a record, if the filters of the handler let it pass; return whether they do.

        Records of the threads of such handlers are not shipped: they would cause more of them.
        """
        if is_own(record):
            self._show_own(record)
            return False
        kept = self.filter(record)
        if kept:
            # Filters may return another record from Python 3.12 on.
            self.emit(kept if isinstance(kept, logging.LogRecord) else record)
        return bool(kept)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record to be sent. Exceptions go to `logging.Handler.handleError`."""
        pipeline = self._pipeline
        try:
            handover = pipeline.handover
            if not pipeline.worker.running and pipeline.start():
                settle_before_end(self._settle_at_end)
            if handover.refuses:
                handover.drop()
                return
            depth = getattr(self._local, "depth", 0)
            if depth >= _MAX_NESTED:
                handover.drop("nested")
                return
            self._local.depth = depth + 1
            try:
                event = self._encode(record)
            except Exception:  # of any kind: `str`, `repr` and `to_event` are the application's
                handover.drop("invalid")
                raise
            finally:
                self._local.depth = depth
            if event is None:
                handover.drop("too_large")
                return
            handover.put(event)
        except Exception:  # as `logging` demands: a fault of logging must not end the program
            self.handleError(record)

    def flush(self) -> None:
        """Wait, for ``close_timeout`` at most, until all records of before are acknowledged."""
        self._pipeline.flush(self._settings.close_timeout)

    def drain(self, timeout: float) -> bool:
        """Wait until all records of before are acknowledged or dropped.

        This blocks the thread. In an event loop, call it in another thread.

        Args:
            timeout: The longest time to wait, in seconds.

        Returns:
            Whether this is so.
        """
        return self._pipeline.drain(timeout)

    def close(self) -> None:
        """Send all records, for ``close_timeout`` at most, drop the rest, and end the thread.

        `logging.shutdown` calls this at the end of the program.
        """
        self._pipeline.close(self._settings.close_timeout)
        super().close()

    def statistics(self) -> LogStatistics:
        """Return numbers about this handler, of this process."""
        counts = self._pipeline.counts()
        return LogStatistics(
            records=counts.offered,
            acknowledged=counts.acknowledged,
            acknowledged_size=counts.acknowledged_size,
            queued=counts.pending,
            queued_size=counts.pending_size,
            sending=counts.pending - counts.waiting,
            dropped=sum(counts.dropped.values()),
            dropped_by=MappingProxyType(counts.dropped),
        )

    def __repr__(self) -> str:
        return f"<{self._title} ({logging.getLevelName(self.level)})>"

    def _encode(self, record: logging.LogRecord) -> bytes | None:
        formatter = self.formatter
        message = record.getMessage() if formatter is None else formatter.format(record)
        event = self._events.event(record, message)
        if self._to_event is not None:
            changed = self._to_event(record, event)
            if not isinstance(changed, Mapping):
                raise TypeError(f"to_event must return a mapping, not {type(changed).__name__}")
            return self._encode_event(changed)
        return self._encode_event(event)

    def _encode_event(self, event: Mapping[str, object]) -> bytes | None:
        text = encode_event(event, self._max_event_size)
        if text is None or self._config.version == 2:
            return text
        pairs = as_pairs(text, self._config.limits.max_pairs)
        return pairs if len(pairs) <= self._max_event_size else None

    def _encode_notice(self, message: str, counts: Mapping[str, int]) -> bytes | None:
        return self._encode_event(self._events.notice(time.time(), message, counts))

    def _show_own(self, record: logging.LogRecord) -> None:
        """Write a record of our own thread to standard error, if no other handler gets it."""
        if not self._pipeline.worker.is_current:
            return
        others = [
            each
            for each in reached_handlers(record.name)
            if not isinstance(each, LumberjackHandler)
        ]
        if not others:
            last_resort(record)

    def _settle_at_end(self) -> None:
        self._pipeline.settle(self._settings.close_timeout)

    def _begin_anew(self) -> None:
        """Begin with an empty buffer, in a forked child."""
        closed = self._pipeline.closed
        self._local.depth = 0
        self._pipeline = self._new_pipeline()
        if closed:
            self._pipeline.close(0)


def _as_config(config: ShipperConfig | Mapping[str, Any] | None) -> ShipperConfig:
    if config is None:
        return ShipperConfig()
    if not isinstance(config, Mapping):
        check_shipper_config(config)
        return config
    given = _as_dict(config)
    for name, make in (("retry", Retry), ("limits", LumberjackLimits)):
        if isinstance(given.get(name), Mapping):
            given[name] = make(**_as_dict(given[name]))
    return ShipperConfig(**given)


def _as_dict(given: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a mapping. Those of `logging.config` resolve texts such as ``ext://`` when read."""
    return {name: given[name] for name in given} if isinstance(given, Mapping) else given


def _pace(settings: Settings, config: ShipperConfig, calls: int) -> Pace:
    """Share half of the buffer among the calls, so that the other half can make room."""
    calls = min(calls, max(1, settings.max_records // 2))
    share = 2 * calls
    return Pace(
        linger=settings.linger,
        max_records=min(config.max_window, max(1, settings.max_records // share)),
        max_size=settings.max_size // share,
        calls=calls,
    )


_handlers: Final[WeakSet[LumberjackHandler]] = WeakSet()


def _begin_anew_in_child() -> None:
    for handler in list(_handlers):
        handler._begin_anew()  # noqa: SLF001 - this module made it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew_in_child)
