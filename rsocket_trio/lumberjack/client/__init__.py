"""The Lumberjack client: `rsocket_trio.lumberjack.connect`.

The modules, in reading order:

- ``config``: the client's times and sizes
- ``shipper``: the block of `connect`, and `send`
- ``intake``: checks the events of a call, and queues them
- ``event_encoder``: the caller's events to bytes, and which ones no server accepts
- ``deliveries``: the events of one call, and ranges of them on the way
- ``backlog``: the events of all calls that wait, in order
- ``hosts``: which host comes next, and when
- ``window_size``: how many events the next window has
- ``connector``: dials, ships, waits, and dials again
- ``outgoing``: one connection, and its two tasks
- ``forming``: forms and encodes one window
- ``flight``: the windows on the way, and what the server may do
- ``bell``: wakes the tasks when there may be something to do
"""
