"""fire_and_forget: a request without an answer (Protocol.md, "Fire and Forget").

The stream is over on both ends once the last fragment has been sent or received, so neither side
ever sends anything else on it: no ERROR, no CANCEL of a whole request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..frames.cancel import encode_cancel
from ..frames.header import FrameType
from .handler_errors import log_unheard
from .operation import Operation, Outbound, R, RequestOperation

if TYPE_CHECKING:
    from ..streamed import AnyPayload

__all__ = ["FireAndForgetResponder", "fire_and_forget"]

_TYPE: Final = FrameType.REQUEST_FNF.value


async def fire_and_forget(outbound: Outbound, payload: AnyPayload) -> None:
    """Queue the request; see `rsocket_trio.Requester.fire_and_forget`."""
    # Letting other tasks run at every call would send every frame on its own, at several times
    # the cost of all else here.
    await (checkpoint if outbound.burst() else checkpoint_if_cancelled)()
    operation = _Requester(outbound)
    if not outbound.try_open(operation, _TYPE, 0, None, payload):
        try:
            await outbound.open(operation, _TYPE, 0, None, payload)
        except BaseException:
            # Cancelled between two fragments (Protocol.md, "Fragmentation and Reassembly").
            if operation.stream_id:
                outbound.send_control(encode_cancel(operation.stream_id))
                outbound.finish(operation)
            raise
    outbound.finish(operation)


class _Requester(Operation):
    """Holds the id while fragments leave; hears nothing."""

    __slots__ = ()

    def connection_closed(self, error: Exception) -> None:
        """Nothing waits here: a caller between two fragments learns it from `Outbound.open`."""


class FireAndForgetResponder(RequestOperation[R]):
    """Runs the handler. What goes wrong is nobody's business but the log's."""

    __slots__ = ()

    async def work(self) -> None:
        await self.responder.fire_and_forget(self.request)

    def fail(self, error: Exception) -> None:
        log_unheard("a fire_and_forget handler", error)
