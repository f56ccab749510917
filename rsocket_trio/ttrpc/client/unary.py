"""A call with one answer: `unary`.

The caller waits in its own task, which is resumed directly with the outcome.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, cast

from trio import current_effective_deadline
from trio.lowlevel import (
    Abort,
    checkpoint,
    checkpoint_if_cancelled,
    current_task,
    reschedule,
    wait_task_rescheduled,
)

from ...entrance import ENDS, get_ident, not_at_home
from ...errors import (
    MalformedFrame,
    RemoteProtocolError,
    outcome_of_ours,
)
from ..errors import call_error
from ..inbox import unreadable
from ..wire.envelopes import RESPONSE_PAYLOAD, decode_response
from ..wire.protobuf import only_field
from .requests import fresh_body, request_body, timeout_until

if TYPE_CHECKING:
    import trio
    from outcome import Outcome

    from ..metadata import Metadata
    from ..methods import Method, Res
    from .connection import ClientConnection

__all__ = ["answer_in", "decoded", "unary"]


async def unary(
    connection: ClientConnection, method: Method[Any, Res], request: Any, metadata: Metadata
) -> Res:
    """Send a call and wait for its answer; see `rsocket_trio.ttrpc.Client.unary`."""
    if get_ident() != connection.home.thread:  # as `Home.check`, without its call
        raise not_at_home("this client")
    payload = method.request.encode(request)
    deadline = current_effective_deadline()
    timeout = 0
    if deadline != inf:
        # If the caller is cancelled, its deadline is -inf: so this is no call without a deadline.
        await checkpoint_if_cancelled()  # else the request would leave, but nobody waits for it
        timeout = timeout_until(deadline)
    call = _UnaryCall(connection)
    body = request_body(method, payload, timeout, metadata)
    try:
        call.stream_id = connection.try_open(call, 0, body) or await connection.open(
            call, 0, body, partial(fresh_body, method, payload, metadata)
        )
        if call.result is not None:
            answer = call.unwrap()  # the connection has ended meanwhile
        else:
            call.task = current_task()
            answer = await wait_task_rescheduled(call.abort)
    except ENDS:
        await checkpoint()  # an end is no answer: see `rsocket_trio.entrance`
        raise
    reply = only_field(answer, 0, RESPONSE_PAYLOAD)
    if reply is None:
        reply = answer_in(answer)
    try:
        return method.response.decode(reply)  # as `decoded`, without its call
    except Exception as error:  # a codec of the application may raise anything
        raise outcome_of_ours(unreadable(method.response, reply)) from error


def decoded(method: Method[Any, Res], reply: bytes) -> Res:
    """Return an answer.

    Raises:
        Internal: It cannot be read; the reason is its cause.
    """
    try:
        return method.response.decode(reply)
    except Exception as error:  # as above
        raise outcome_of_ours(unreadable(method.response, reply)) from error


def answer_in(body: bytes) -> bytes:
    """Return the message in the body of a RESPONSE.

    Raises:
        CallError: The call has failed.
        RemoteProtocolError: The body cannot be read.
    """
    try:
        response = decode_response(body)
    except MalformedFrame as error:
        raise RemoteProtocolError(f"the answer cannot be read: {error}") from error
    status = response.status
    if status is not None and status.code:
        raise call_error(status)
    return response.payload


class _UnaryCall:
    """Waits for the RESPONSE. It is also the outcome with which its caller's task is resumed."""

    __slots__ = ("connection", "result", "stream_id", "task")

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.stream_id = 0
        self.task: trio.lowlevel.Task | None = None
        self.result: bytes | Exception | None = None

    def unwrap(self) -> bytes:
        """Return the body of the RESPONSE, or raise the error. Only once."""
        result = self.result
        if isinstance(result, bytes):
            return result
        self.result = b""
        assert result is not None
        try:
            raise result
        finally:
            del result

    def abort(self, _raise_cancel: Any) -> Abort:
        """The caller is cancelled. The protocol cannot tell the server."""
        self.task = None
        self.connection.forget(self.stream_id)
        return Abort.SUCCEEDED

    def receive_response(self, body: bytes) -> None:
        self._settle(body)

    def receive_data(self, flags: int, body: bytes) -> None:
        # PROTOCOL.md, "Data": not allowed on a unary stream.
        self.connection.forget(self.stream_id)
        self._settle(
            RemoteProtocolError(
                "the server sent a DATA frame on a unary call: if this method streams its answers, "
                "call it with server_stream or bidi_stream"
            )
        )

    @property
    def unread_size(self) -> int:
        return 0

    def fail(self, error: Exception) -> None:
        self._settle(error)

    def break_off(self, error: Exception) -> None:
        self._settle(error)

    def overrun(self) -> None:
        """There is nothing that could overflow."""

    def _settle(self, result: bytes | Exception) -> None:
        self.result = result
        task = self.task
        if task is not None:
            self.task = None
            reschedule(task, cast("Outcome[bytes]", self))
