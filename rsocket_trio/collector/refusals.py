"""The errors of a spool on the wire: `refusal` at the collector, `refused` at its reader.

A reader must tell them apart, and needs their numbers. So each has a code of its own, and data in
JSON:

============== ===================== ================================
code           error                 data
============== ===================== ================================
``0x00005301`` `WrongSpool`          ``{"expected": ID, "found": ID}``
``0x00005302`` `OffsetTrimmed`       ``{"offset": N, "oldest": N}``
``0x00005303`` `OffsetNotStored`     ``{"offset": N, "head": N}``
``0x00005304`` the reader has stalled ``{}``
``0x00005305`` `CollectorBusy`       ``{"why": TEXT}``
``0x00005306`` `SpoolRestored`       ``{"offset": N, "end": N or null}``
============== ===================== ================================

Stalled and busy are no failures: the reader asks for the rest of its range again, after a pause.

Other refusals are INVALID (a request that makes no sense), REJECTED (a limit, or the collector is
stopping) and APPLICATION_ERROR (the spool has failed; the log of the collector says why).
"""

from __future__ import annotations

import json
from typing import Final

from ..errors import (
    ApplicationError,
    CustomError,
    Invalid,
    Rejected,
    StreamError,
    outcome_of_ours,
)
from ..log_policy import logger
from ..spool import (
    BatchTooLarge,
    OffsetNotStored,
    OffsetTrimmed,
    SpoolClosed,
    SpoolError,
    SpoolRestored,
    WrongSpool,
)
from .messages import MAX_ID

__all__ = [
    "STALLED",
    "CollectorBusy",
    "busy",
    "has_stalled",
    "refusal",
    "refused",
    "stalled",
    "wrong_spool",
]

WRONG_SPOOL: Final = 0x5301
TRIMMED: Final = 0x5302
NOT_STORED: Final = 0x5303
STALLED: Final = 0x5304
BUSY: Final = 0x5305
RESTORED: Final = 0x5306

_MAX_DATA: Final = 1000
"""Bytes of the data of such an error; the data of another one are not read."""


class CollectorBusy(Rejected):
    """The collector has no place or no memory for a range now: ask for it again, after a pause."""


def refusal(error: SpoolError | ValueError) -> StreamError:
    """Return what a reader is told for an error of the spool."""
    if isinstance(error, OffsetTrimmed):
        return _coded(TRIMMED, {"offset": error.offset, "oldest": error.oldest})
    if isinstance(error, SpoolRestored):
        return _coded(RESTORED, {"offset": error.offset, "end": error.end})
    if isinstance(error, OffsetNotStored):
        return _coded(NOT_STORED, {"offset": error.offset, "head": error.head})
    if isinstance(error, ValueError | BatchTooLarge):
        return Invalid(str(error))
    if isinstance(error, SpoolClosed):
        return Rejected("the collector is stopping")
    logger.error("a request to the spool of the collector failed", exc_info=error)
    return ApplicationError("the spool of the collector failed; its log says why")


def wrong_spool(expected: str, found: str) -> StreamError:
    """Return what a reader of another spool is told."""
    return _coded(WRONG_SPOOL, {"expected": expected[:MAX_ID], "found": found})


def stalled() -> StreamError:
    """Return what a reader is told that has lost its place."""
    return _coded(STALLED, {})


def busy(why: str) -> StreamError:
    """Return what a reader is told for which there is no place or no memory now."""
    return _coded(BUSY, {"why": why})


def _coded(code: int, data: dict[str, object]) -> StreamError:
    return CustomError(json.dumps(data), code=code)


def has_stalled(error: StreamError) -> bool:
    """Return whether the collector has given the place of a range to another reader."""
    return error.code == STALLED


def refused(error: StreamError) -> Exception:
    """Return the error of the spool that a collector has sent; ``error`` if it is another."""
    try:
        match error.code:
            case _ if len(error.data) > _MAX_DATA:
                return error
            case code if code == WRONG_SPOOL:
                match json.loads(error.data):
                    case {"expected": str(expected), "found": str(found)}:
                        return WrongSpool(f"the collector has the spool {found}, not {expected}")
            case code if code == TRIMMED:
                match json.loads(error.data):
                    case {"offset": int(offset), "oldest": int(oldest)}:
                        return OffsetTrimmed(offset, oldest)
            case code if code == NOT_STORED:
                match json.loads(error.data):
                    case {"offset": int(offset), "head": int(head)}:
                        return OffsetNotStored(offset, head)
            case code if code == RESTORED:
                match json.loads(error.data):
                    case {"offset": int(offset), "end": int(end)}:
                        return SpoolRestored(offset, end)
                    case {"offset": int(offset), "end": None}:
                        return SpoolRestored(offset, None)
            case code if code == STALLED:
                why = (
                    "the collector has given the memory of this range to other readers, as nothing"
                    " of it was taken for a while: ask again"
                )
                return outcome_of_ours(CollectorBusy(why, stream_id=error.stream_id))
            case code if code == BUSY:
                match json.loads(error.data):
                    case {"why": str(why)}:
                        return outcome_of_ours(CollectorBusy(why, stream_id=error.stream_id))
    except (ValueError, RecursionError):  # not JSON, or too deep: the peer is no collector
        pass
    return error
