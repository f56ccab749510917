"""Frames of one connection as text, as fields and without secrets: `FrameReader`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.frames.header import FrameType
from rsocket_trio.metadata import MIME, dump

from .wire_formats import WireFormat

__all__ = ["FrameReader"]

_MOST_FRAGMENTED: Final = 4096
"""The most streams of a peer whose metadata come in fragments, and are masked as a whole."""


class FrameReader:
    """Shows frames of one protocol as text or fields. It knows what SETUP has said.

    Args:
        wire: The protocol.
    """

    def __init__(self, wire: WireFormat) -> None:
        self.wire: Final = wire
        self._dump: Final = wire.load()
        self._metadata_mime: str = MIME.COMPOSITE_METADATA
        self._fragmented: Final[dict[bool, set[object]]] = {True: set(), False: set()}

    def fields(self, frame: bytes) -> dict[str, object]:
        """Return the fields of a frame for JSON, with the entries of its metadata.

        Raises:
            MalformedFrame: It is not a frame.
        """
        fields = self._dump.as_fields(frame)
        if isinstance(named := fields.get("metadata_mime"), str):
            self._metadata_mime = named
        if (metadata := _metadata(fields)) and not fields.get("follows"):
            fields["metadata"] = dump.as_fields(metadata, self._metadata_mime)
        return fields

    def text(self, frame: bytes) -> str:
        """Return a frame as a line, with what its metadata say.

        Raises:
            MalformedFrame: It is not a frame.
        """
        fields = self.fields(frame)
        words = ""
        if "metadata" in fields:
            words = dump.describe(_metadata(fields), self._metadata_mime)
        return f"{self._dump.describe(frame)} {words}".rstrip()

    def masked(self, frame: bytes, *, from_client: bool) -> bytes:
        """Return a frame of the same size without passwords, tokens and the data of SETUP.

        Metadata that come in several fragments are masked as a whole. A protocol may have its own
        function for it.
        """
        try:
            fields = self.fields(frame)
        except MalformedFrame:
            return frame
        own: Callable[[bytes], bytes] | None = getattr(self._dump, "masked", None)
        if own is not None:
            return own(frame)
        for name in ("token_hex", "metadata_hex", "data_hex"):
            value = bytes.fromhex(str(fields.get(name) or ""))
            hidden = value
            if name == "metadata_hex":
                hidden = self._masked_metadata(value, fields, from_client=from_client)
            elif name == "token_hex" or fields.get("type") == FrameType.SETUP.name:
                hidden = dump.MASK * len(value)
            if hidden != value:
                before = frame.rindex(value) if name == "data_hex" else frame.index(value)
                frame = frame[:before] + hidden + frame[before + len(value) :]
        return frame

    def _masked_metadata(
        self, metadata: bytes, fields: dict[str, object], *, from_client: bool
    ) -> bytes:
        going_on, stream_id = self._fragmented[from_client], fields.get("stream_id")
        # Above the limit, all that may be a further fragment is taken for one.
        goes_on = stream_id in going_on or (
            len(going_on) >= _MOST_FRAGMENTED and "stream_id" in fields and stream_id != 0
        )
        if not fields.get("follows"):
            going_on.discard(stream_id)
        elif len(going_on) < _MOST_FRAGMENTED:
            going_on.add(stream_id)
        if goes_on:
            return dump.MASK * len(metadata)
        return dump.masked(metadata, self._metadata_mime)


def _metadata(fields: dict[str, object]) -> bytes:
    found = fields.get("metadata_hex")
    return bytes.fromhex(found) if isinstance(found, str) else b""
