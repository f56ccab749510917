"""The interactions, requester and responder side by side, and the demand that drives them.

The modules, in reading order. What all of them stand on:

- ``operation``: the contract between an interaction and the engine
- ``handler_errors``: what a peer and the log learn of what a handler raised
- ``stepping``: a coroutine run by hand, up to its first wait
- ``block``: what the body of a block raises comes out as itself
- ``isolation``: what came out of a handler, and whose business it is

The interactions:

- ``request_response``: one request, one response
- ``fire_and_forget``: a request without an answer
- ``request_stream``: one request, a stream of items
- ``channel_operation``: what both ends of a channel do
- ``request_channel``: a stream of payloads each way
- ``metadata_push``: metadata about the connection

Demand, and payloads in chunks:

- ``inbox``: the one task that waits on a stream, and what has arrived for it
- ``demand``: what the user of a stream reads
- ``credit_gate``: what a producer passes for each item
- ``sending``: how the items of a handler or a source leave
- ``payload_body``: a payload that is read while it arrives
- ``body_responders``: requests that are read while they arrive
"""
