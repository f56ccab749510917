"""ttrpc without I/O: frames, and the messages in them.

- ``frames``: the header of a frame, from bytes and to bytes
- ``decoder``: cuts a stream of bytes into frames
- ``messages``: Request and Response, the messages around those of an application
- ``envelopes``: these messages, from bytes and to bytes
- ``any_form``: decodes envelopes that other implementations do not send, but may
- ``protobuf``: as much of protobuf as the envelopes need
- ``trunk``: several streams in one, as NRI has them
- ``dump``: frames as readable text
"""
