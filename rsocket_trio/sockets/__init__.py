"""From an address to a byte stream, for every wire: TCP, TLS, Unix sockets, vsock, and limits.

A wire dials with `dial` and listens with `listen_for`, and makes what it needs out of each
`ByteStream`: RSocket makes a transport (`rsocket_trio.transports`).

The modules, in reading order. Streams by address:

- ``byte_stream``: a connected stream, and the facts about it
- ``dial``: from an address to a connected stream, for clients
- ``listen``: a task for each connection that arrives at an address
- ``goodbyes``: when connections are told that they end
- ``serving``: listen at several addresses until stopped; the base of servers

Kinds of sockets:

- ``tapped``: who listens in on connections
- ``tcp``: dial, listen, and the addresses of a connection
- ``tls``: begin TLS on a socket, as client or server
- ``tls_stream``: the encrypted stream, from its handshake to its alerts
- ``reloadable``: certificates that are read again while connections are served
- ``unix``: Unix sockets, and their files or abstract names
- ``vsock``: between a virtual machine and its host
- ``hybrid_vsock``: the same by the Unix socket of a hypervisor
- ``adopt``: sockets that are open already, or inherited
- ``systemd``: sockets that systemd has opened, and what it is told
- ``workplace``: the connections that a worker process gets from its parent
- ``shared``: what cannot be done at addresses that several processes serve
- ``socket_facts``: who is at the other end: addresses, and the credentials of a process
- ``file_lock``: a lock between processes, for the file of a socket

Ends:

- ``failures``: why a connection failed, in words
- ``farewell``: close so that the last bytes arrive

Limits, and waiting:

- ``allowed``: an allow-list of the users that may connect
- ``peer``: a connection for the application, which may end it
- ``connection_limit``: how many connections may be open at once
- ``patient_listener``: a listener that waits while the system has no room
- ``direct``: a socket with few system calls
- ``departure``: whether a peer has left, although its bytes are not read
- ``readiness``: one epoll for the many sockets of a trio run
"""
