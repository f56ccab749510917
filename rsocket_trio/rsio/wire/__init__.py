"""rsio without I/O: messages.

- ``violations``: what a peer can do wrong, and what follows from it
- ``varint``: unsigned numbers, 7 bits in each octet
- ``messages``: the messages, and to bytes
- ``checks``: what the decoder asks as soon as it has read a type, an id or a count
- ``runs``: reads runs of elements, fast
- ``decoder``: messages from a stream of bytes
- ``dump``: messages as readable text, for the command line
"""
