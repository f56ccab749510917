"""metadata_push: metadata about the connection, without an answer (Protocol.md, "Metadata Push").

It belongs to stream 0: no stream id, no credit, no fragments, and no error for the peer.
"""

from __future__ import annotations

from ..errors import LocalProtocolError
from ..field_checks import argument, instance_of
from ..frames.header import HEADER
from .handler_errors import log_handler_failure
from .operation import Handlers, Outbound, ResponderOperation

__all__ = ["MetadataPushResponder", "check_metadata_push"]


def check_metadata_push(metadata: bytes, max_frame_size: int) -> None:
    """Check that the metadata fit into one frame: METADATA_PUSH is never fragmented.

    Raises:
        LocalProtocolError: They do not fit.
        TypeError: They are not bytes.
    """
    argument("metadata", metadata, instance_of(bytes))
    at_most = max_frame_size - HEADER.size
    if len(metadata) > at_most:
        raise LocalProtocolError(
            f"metadata_push has at most {at_most} bytes, as it is one frame, not {len(metadata)}"
        )


class MetadataPushResponder(ResponderOperation):
    """Runs the handler. Its errors are only logged."""

    __slots__ = ("metadata", "responder")

    def __init__(self, outbound: Outbound, metadata: bytes, responder: Handlers) -> None:
        super().__init__(outbound, 0)
        self.metadata = metadata
        self.responder = responder

    async def work(self) -> None:
        await self.responder.metadata_push(self.metadata)

    def fail(self, error: Exception) -> None:
        log_handler_failure("a metadata_push handler", error)
