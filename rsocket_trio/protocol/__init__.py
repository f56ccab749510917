"""The rules and the accounting of the protocol, sans-IO: time comes in as ``now``, nothing waits.

The modules, in reading order. The rules:

- ``interaction``: the names of the five interactions
- ``legality``: the tables: what each side of a stream may receive and send in each state
- ``stream_state``: the state of one stream, driven by its table
- ``frame_rules``: which frames each side accepts, on which stream
- ``zero_stream``: the meaning of an ERROR on stream 0
- ``setup``: the first frame: how a client builds it, and when a server refuses it
- ``stream_ids``: which ids are ours, and which are the peer's

The accounting:

- ``credit``: the arithmetic of demand, both ways
- ``lease_ledger``: how many requests a lease still allows
- ``fragmentation``: cuts a payload into fragments
- ``body_fragments``: cuts a payload into fragments while its data are still being produced
- ``reassembly``: puts fragments together, within bounds
- ``memory``: the accounts of all that a connection holds for its peer
- ``keepalive_clock``: when to send a KEEPALIVE, and when the peer is dead
- ``resume_log``: the positions and frames that one end of a session keeps
- ``retry``: how long to wait before the next attempt
- ``budget``: how many requests may be sent once more
- ``circuit``: when a target that fails is left alone
- ``percentile``: how long most requests take
- ``repeats``: the settings of all that: when a request is sent once more
"""
