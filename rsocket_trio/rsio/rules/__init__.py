"""The state of one connection of rsio, without I/O.

- ``events``: what a peer has done
- ``incoming``: the streams of the peer's publishers, to which we subscribed
- ``outgoing``: the streams of our publishers, to which the peer subscribed
- ``arrivals``: what arrives, and what it means
- ``session``: what we do, and all of the above
"""
