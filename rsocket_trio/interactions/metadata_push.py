"""metadata_push: metadata about the connection, without an answer (Protocol.md, "Metadata Push").

It belongs to stream 0: no stream id, no credit, no fragments, and no error for the peer.
"""

from __future__ import annotations

from ..errors import LocalProtocolError
from ..frames.header import HEADER
from .handler_errors import log_unheard
from .operation import Handlers, Outbound, ResponderOperation

__all__ = ["MetadataPushResponder", "check_metadata_push"]


def check_metadata_push(metadata: bytes, max_frame_size: int) -> None:
    """METADATA_PUSH is never fragmented: refuse what does not fit a frame.

    Raises:
        LocalProtocolError: It does not fit.
    """
    at_most = max_frame_size - HEADER.size
    if len(metadata) > at_most:
        raise LocalProtocolError(
            f"metadata_push carries at most {at_most} bytes in its one frame, not {len(metadata)}"
        )


class MetadataPushResponder(ResponderOperation):
    """Runs the handler. What goes wrong is logged."""

    __slots__ = ("metadata", "responder")

    def __init__(self, outbound: Outbound, metadata: bytes, responder: Handlers) -> None:
        super().__init__(outbound, 0)
        self.metadata = metadata
        self.responder = responder

    async def work(self) -> None:
        await self.responder.metadata_push(self.metadata)

    def fail(self, error: Exception) -> None:
        log_unheard("a metadata_push handler", error)
