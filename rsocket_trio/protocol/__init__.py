"""What is legal and what it costs, sans-IO: time comes in as ``now``, nothing here waits.

The modules, in reading order. What is legal:

- ``interaction``: the names of the five interactions
- ``legality``: the tables: what each side of a stream may receive and send in each state
- ``stream_state``: one stream, driven by its table
- ``frame_rules``: which frames mean something, to whom and on which stream
- ``zero_stream``: what an ERROR on stream 0 means
- ``setup``: the first frame: what a client says and what a server refuses
- ``stream_ids``: which ids are ours, and which are the peer's

What it costs:

- ``credit``: the arithmetic of demand, both ways
- ``lease_ledger``: how many requests a lease still allows
- ``fragmentation``: cutting a payload into fragments
- ``body_fragments``: the same, while its data are still being made
- ``reassembly``: putting fragments together, within bounds
- ``receive_account``: the bytes that a connection has received and still holds
- ``keepalive_clock``: when to send a KEEPALIVE, and when the peer is dead
- ``resume_log``: what one end remembers of a session
- ``retry``: how long to wait before trying again
"""
