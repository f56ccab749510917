"""The engine: the nursery of a connection, its writer, the tasks that read and run handlers.

The modules, in reading order. Every connection consists of these:

- ``connection``: puts the parts of a connection together, and owns its nursery
- ``engine``: the tasks of a connection, from its first to its end, for every wire with handlers
- ``lifecycle``: the phases of a connection, and the callbacks for each change
- ``establish``: how a connection begins, on both sides
- ``workload``: the requests of the peer that wait or run
- ``crew``: the tasks that read and run handlers
- ``job``: what the crew needs from a wire: requests to run, and frames to read
- ``queued_steps``: runs queued requests up to the first wait of their handlers
- ``first_steps``: the same for a request of one answer, where its frame is dispatched
- ``shift``: the state of one task of the crew
- ``reader``: reads once, and dispatches the frames, for any task of the crew
- ``dispatch``: from a frame to its stream
- ``incoming_requests``: accepts or refuses the peer's requests
- ``fragmented_request``: a request of the peer, until it is whole
- ``stream_zero``: the frames of the connection itself
- ``stream_table``: the operation of each stream id
- ``stream_sender``: sends the requests and payloads of operations
- ``sendable``: checks of payloads that are to be sent
- ``body_sender``: sends payloads whose data come in chunks
- ``admission``: decides whether a request of ours may leave now
- ``outbox``: the queue of frames to send
- ``room``: the space for payload frames, and the tasks that wait for it
- ``writer_state``: the states of the writer, and how it is woken
- ``flushing``: the loop sends while the writer sleeps
- ``keepalive``: sends KEEPALIVEs, and finds out that the peer is dead

Leases, if the connection uses them:

- ``leases``: the leases that each side has granted the other
- ``granting``: asks the application for leases to grant
- ``latency``: how long handlers take, for sources of leases
- ``resumed_leases``: leases of a session, anew for each of its connections

Sessions that outlive their connections:

- ``resume_options``: the settings of resumption
- ``resumable_link``: a transport that outlives the connections below it
- ``session_frames``: reads and sets the positions in the frames of a session
- ``link_watch``: KEEPALIVEs, and peers that fall silent, below a link
- ``retention``: the frames that one end keeps for the other, within bounds
- ``dialling``: functions of applications that make transports
- ``resume_client``: a session at a client: dials again, and offers to resume
- ``session_store``: finds the sessions of a server by their tokens
- ``resume_server``: the sessions of a server

Clients that connect again and again:

- ``reconnect``: the settings, and which refusals are final
- ``succession``: the sessions of a client, one after the other
- ``patient_requests``: requests that wait for a session, and some that are repeated
"""
