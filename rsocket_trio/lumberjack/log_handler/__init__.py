"""A handler of `logging` that ships records to Lumberjack servers: `LumberjackHandler`.

The modules, in reading order:

- ``handler``: the handler, for applications
- ``settings``: its settings, checked
- ``record``: a record as an event
- ``json_text``: an event as JSON text, valid and within a size
- ``pairs``: an event for version 1 of the protocol
- ``pipeline``: the parts that each process has: buffer, thread, counters
- ``handover``: the buffer between the threads that log and the one that sends
- ``buffer``: the events that wait or are being sent, within limits
- ``worker``: the thread that sends
- ``courier``: the sending side in trio
- ``drops``: what is said about dropped records
- ``workers_end``: the end of processes that ``multiprocessing`` has started
"""

from __future__ import annotations

from .handler import LogStatistics, LumberjackHandler, ToEvent

__all__ = ["LogStatistics", "LumberjackHandler", "ToEvent"]
