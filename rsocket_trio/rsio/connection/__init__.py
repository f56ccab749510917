"""One connection of rsio, of either end.

- ``failures``: what the peer is told about errors
- ``changes``: what extensions make of elements
- ``send_queue``: what waits to be sent, and in which order
- ``subscriptions``: ours, to publishers of the peer
- ``publication``: one subscription of the peer to a publisher of ours
- ``publications``: all of them, and how their publishers are found
- ``link``: the tasks of a connection, its beginning and its end
- ``connection``: what applications get: `Connection`
"""
