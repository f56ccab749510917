"""The Lumberjack server: `rsocket_trio.lumberjack.serve`.

The modules, in reading order:

- ``config``: the server's times and limits
- ``server``: listen, and stop
- ``receiver``: one connection, and its tasks
- ``bytes_in``: read from a sender within the deadlines
- ``incoming_memory``: the memory of what all connections have read and not delivered
- ``turns``: how much work all connections do in one turn of the loop
- ``fair_queue``: whose turn is next
- ``room``: the batches that all connections hold together
- ``waiting``: the batches of one connection that wait
- ``routed``: call the handler and the guards of a router
- ``handling``: call the application for one batch
- ``batch``: what the application gets
- ``acknowledgements``: the task that writes ACKs and keep-alives
"""
