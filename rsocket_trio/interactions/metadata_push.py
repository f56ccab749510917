"""metadata_push: metadata about the connection, without an answer (Protocol.md, "Metadata Push").

It belongs to stream 0: no stream id, no credit, no fragments, and no error for the peer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import LocalProtocolError
from ..frames.header import HEADER
from ..payload import Payload
from .operation import Handlers, Outbound, ResponderOperation, log_unheard

if TYPE_CHECKING:
    import trio


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

    __slots__ = ("metadata",)

    def __init__(self, outbound: Outbound, metadata: bytes, responder: Handlers) -> None:
        super().__init__(outbound, 0, Payload(b"", metadata), responder)
        self.metadata = metadata

    async def run(self, scope: trio.CancelScope) -> None:
        self.scope = scope
        try:
            await self.responder.metadata_push(self.metadata)
        except Exception as error:
            log_unheard("a metadata_push handler", error)
        finally:
            self.scope = None
            self.outbound.finish(self)
