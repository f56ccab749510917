"""The Lumberjack protocol without I/O.

lumberjack-v1.md leaves many questions open. The answers are in the modules: in ``batches`` those
about windows, in ``acks`` and `IncomingBatch.acks_for` those about acknowledgements.

The modules, in reading order:

- ``frames``: the frames, from bytes and to bytes
- ``limits``: the memory that a peer may take, with a reason for each limit
- ``sequences``: sequence numbers of 32 bits, which roll over
- ``batches``: where a batch begins and ends, and which ACKs it needs
- ``decoder``: cuts bytes into frames and checks every length
- ``inflate``: inflates compressed frames in steps, up to a limit
- ``reader``: the receiving end: bytes in, batches out
- ``events``: decodes events
- ``compression``: compresses, with isal if it is installed
- ``encoder``: the sending end: events in, bytes out
- ``acks``: ACK frames at the sending end, and what they acknowledge
- ``dump``: frames as readable text
"""
