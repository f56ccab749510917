"""The engine: the nursery of a connection, its writer, the tasks that read and run handlers.

The modules, in reading order. What every connection is made of:

- ``connection``: puts the parts of a connection together, and owns its nursery
- ``lifecycle``: accepted, draining, over; and who is told
- ``establish``: how a connection begins, on both sides
- ``workload``: the requests of the peer that wait or run
- ``crew``: the tasks that read and run handlers
- ``first_steps``: handlers, up to their first wait
- ``shift``: what one task of the crew remembers while it works
- ``reader``: one turn of reading, whichever task does it
- ``dispatch``: from a frame to whom it belongs
- ``incoming_requests``: the peer's requests: taken on, or refused
- ``fragmented_request``: a request of the peer's, until it is whole
- ``stream_zero``: the frames of the connection itself
- ``stream_table``: which operation has which stream id
- ``stream_sender``: sends the requests and payloads of operations
- ``sendable``: what can be sent as a payload
- ``body_sender``: payloads in chunks, on their way out
- ``admission``: whether a request of ours may leave now
- ``outbox``: what waits to be sent
- ``room``: who waits for room in the outbox
- ``writer_state``: where the writer stands, and who wakes it
- ``flushing``: the loop sends while the writer sleeps
- ``keepalive``: when to send one, and when the peer is dead

Leases, where they are in use:

- ``leases``: what each side has granted the other
- ``granting``: asks the application for leases to grant
- ``latency``: how long handlers take, for those who decide about leases
- ``resumed_leases``: leases of a session, anew for each of its connections

Sessions that outlive their connections:

- ``resume_options``: what an application says about resumption
- ``resumable_link``: a transport that outlives the connections below it
- ``session_frames``: what the frames of a session mean for its resumption
- ``link_watch``: KEEPALIVEs, and peers that fall silent, below a link
- ``retention``: what one end keeps for the other, within bounds
- ``dialling``: functions that make transports, as applications write them
- ``resume_client``: a session at a client: dials again, and offers to resume
- ``fresh_sessions``: one session after the other, where a server has forgotten the first
- ``session_store``: where a server finds its sessions by their tokens
- ``resume_server``: the sessions of a server
"""
