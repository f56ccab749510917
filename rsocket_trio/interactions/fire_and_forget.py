"""fire_and_forget: a request without an answer (Protocol.md, "Fire and Forget").

The stream is over on both ends once the last fragment has been sent or received. So neither side
sends another frame on it: no ERROR, and no CANCEL of a whole request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..entrance import get_ident, not_at_home
from ..frames.cancel import encode_cancel
from ..frames.header import FrameType
from .handler_errors import log_handler_failure
from .operation import Operation, Outbound, R, RequestOperation

if TYPE_CHECKING:
    from ..streamed import AnyPayload

__all__ = ["FireAndForgetResponder", "fire_and_forget"]

_TYPE: Final = FrameType.REQUEST_FNF.value


async def fire_and_forget(outbound: Outbound, payload: AnyPayload) -> None:
    """Queue the request; see `rsocket_trio.Requester.fire_and_forget`."""
    if get_ident() != outbound.home.thread:  # as `Home.check`, without its call
        raise not_at_home("this requester")
    # If other tasks ran at every call, every frame would leave on its own, which would cost
    # several times as much as the rest of this function.
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
    """Holds the id while fragments leave; it receives no frames."""

    __slots__ = ()

    def connection_closed(self, error: Exception) -> None:
        """Do nothing: a caller between two fragments gets the error from `Outbound.open`."""


class FireAndForgetResponder(RequestOperation[R]):
    """Runs the handler. Its errors are only logged."""

    __slots__ = ()

    async def work(self) -> None:
        await self.responder.fire_and_forget(self.request)

    def fail(self, error: Exception) -> None:
        log_handler_failure("a fire_and_forget handler", error)
