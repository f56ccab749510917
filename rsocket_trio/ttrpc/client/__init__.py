"""The client: `connect`, and the calls of one connection.

- ``client``: `connect`, and the connection as applications see it
- ``connection``: the tasks of a connection, and its table of calls
- ``unary``: a call with one answer
- ``streams``: calls with streams of messages
- ``calls``: a call before it is sent, for middleware
"""
