"""ttrpc without I/O: frames, and the messages in them.

- ``frames``: the header of a frame, from bytes and to bytes
- ``decoder``: cuts a stream of bytes into frames
- ``envelopes``: Request and Response, the messages around those of an application
- ``protobuf``: as much of protobuf as the envelopes need
"""
