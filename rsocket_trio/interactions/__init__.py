"""The interactions, requester and responder side by side, and the demand that drives them.

The modules, in reading order. The base of all interactions:

- ``operation``: the contract between an interaction and the engine
- ``handler_errors``: tells the peer and the log about errors of handlers
- ``stepping``: runs a coroutine by hand, up to its first wait
- ``block``: errors in the body of a block leave it without a group
- ``connection_block``: the block of the application around one connection
- ``isolation``: turns an error of a handler into the outcome of its stream
- ``leftovers``: finds and closes what a handler leaves behind in its task

The interactions:

- ``request_response``: one request, one response
- ``fire_and_forget``: a request without an answer
- ``request_stream``: one request, a stream of items
- ``channel_operation``: the common part of both ends of a channel
- ``request_channel``: a stream of payloads each way
- ``metadata_push``: metadata about the connection

Demand, and payloads in chunks:

- ``inbox``: the one task that waits on a stream, and the queue of arrived items
- ``demand``: the stream of items that a user reads
- ``credit_gate``: where a producer waits for credit
- ``sending``: sends the items of a handler or a source
- ``payload_body``: a payload that is read while it arrives
- ``body_responders``: requests that are read while they arrive
"""
