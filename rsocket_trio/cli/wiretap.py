"""``--wiretap`` and ``--wiretap-file``: show the frames of a command's connections as they pass.

Secrets are masked in the bytes of the frames, so the file has none, and `decode` reads it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, BinaryIO

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.escapes import escaped
from rsocket_trio.private_files import open_private
from rsocket_trio.sockets.tapped import tap

from .conversation import Conversation
from .exits import USAGE, Failure
from .logs import wiretap_logger
from .output import json_line, utc

if TYPE_CHECKING:
    import argparse

    from rsocket_trio.sockets.byte_stream import TransportInfo

__all__ = ["tapped"]


@contextmanager
def tapped(args: argparse.Namespace) -> Iterator[None]:
    """Show the frames of all connections that are made in the block, as the options say.

    Raises:
        Failure: The file cannot be written.
    """
    name: str | None = args.wiretap_file
    if name is not None and getattr(args, "workers", None) is not None:
        text = "--wiretap-file does not work with --workers: use --wiretap, or one process"
        raise Failure(text, USAGE)
    file: BinaryIO | None = None
    try:
        if name is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            file = os.fdopen(open_private(name, flags), "wb")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Failure(f"--wiretap-file: cannot write {name!r}: {reason}", USAGE) from error
    wiretap_logger.setLevel(logging.INFO if args.wiretap else logging.ERROR)
    token = tap.set(_Wiretap(file, getattr(args, "protocol", "rsocket")))
    try:
        yield
    finally:
        tap.reset(token)
        wiretap_logger.setLevel(logging.NOTSET)
        if file is not None:
            file.close()


class _Wiretap:
    """Makes the listeners of connections; see `rsocket_trio.sockets.tapped.Tap`."""

    def __init__(self, file: BinaryIO | None, protocol: str) -> None:
        self._file = file
        self._protocol = protocol
        self._numbers = count(1)

    def connection(self, info: TransportInfo, *, dialled: bool) -> _Listener:
        first = info.scheme.partition("+")[0].rstrip("s")
        others = {"rsio": "rsio", "ttrpc": "ttrpc", "lumberjack": "lumberjack"}
        listener = _Listener(others.get(first, self._protocol), next(self._numbers), dialled, self)
        listener.note(info)
        return listener

    def write(self, fields: dict[str, object]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json_line(fields))
            self._file.flush()
        except OSError as error:
            self._file = None
            wiretap_logger.error("--wiretap-file: it ends here: %s", error.strerror)


class _Listener:
    """Shows the frames of one connection; see `rsocket_trio.sockets.tapped.Listening`."""

    def __init__(self, protocol: str, number: int, dialled: bool, whole: _Wiretap) -> None:
        self._conversation = Conversation(protocol)
        self._number = number
        self._dialled = dialled
        self._whole = whole

    def note(self, info: TransportInfo) -> None:
        peer = info.peer or info.local or info.scheme
        wiretap_logger.info("#%d %s %s", self._number, "to" if self._dialled else "from", peer)

    def sent(self, data: bytes) -> None:
        found = self._conversation.feed(data, from_client=self._dialled)
        self._show(found, sent=True)

    def received(self, data: bytes) -> None:
        client = not self._dialled
        found = self._conversation.feed(data, from_client=client)
        self._show(found if data else self._conversation.end(from_client=client), sent=False)

    def closed(self) -> None:
        self._show(self._conversation.end(from_client=self._dialled), sent=True)
        self._show(self._conversation.end(from_client=not self._dialled), sent=False)

    def _show(self, found: Iterable[bytes | ValueError], *, sent: bool) -> None:
        for each in found:
            reader = self._conversation.reader
            fields: dict[str, object] = {
                "time": utc(time.time()),
                "connection": self._number,
                "direction": "sent" if sent else "received",
                "protocol": reader.wire.name,
            }
            try:
                if isinstance(each, ValueError):
                    raise each
                frame = reader.masked(each, from_client=sent is self._dialled)
                fields["hex"] = frame.hex()
                text = reader.text(frame)
            except (MalformedFrame, ValueError) as error:
                text = f"error: {error}"
                fields["error"] = escaped(str(error))
            self._whole.write(fields)
            wiretap_logger.info("#%d %s %s", self._number, "->" if sent else "<-", escaped(text))
