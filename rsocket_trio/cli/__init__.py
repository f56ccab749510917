"""The command line ``rsocket-trio``. It uses only the public API.

The modules, in reading order. Every run uses these:

- ``main``: dispatch, error messages and exit statuses
- ``grammar``: all commands and options
- ``lumberjack_grammar``: those of the group ``lumberjack``
- ``ttrpc_grammar``: those of the group ``ttrpc``
- ``rsio_grammar``: those of the group ``rsio``
- ``conformance_grammar``: those of ``conformance``
- ``spool_options``: those of commands that keep events in a spool
- ``collect_grammar``: those of ``collect``
- ``spool_grammar``: those of the group ``spool``
- ``commands``: add a command, or a group of commands, with its help
- ``wire_formats``: the protocols that ``decode`` knows
- ``command_parser``: a parser that takes options anywhere
- ``options``: options and argument types that several commands share
- ``exits``: the exit statuses, and ``Failure``

The commands. Each module is imported when its command runs:

- ``serve``: serve a target until a signal stops it
- ``request``: send one message to the peer and print the answer, if there is one
- ``stream``: print the items of a stream as they arrive
- ``routes``: print what a router answers, of a target or of a server
- ``client_module``: write a module for clients of a router
- ``bench``: measure the throughput and the latency of a peer
- ``decode``: print frames, one per line
- ``completion``: print what a shell needs to complete commands and options
- ``lumberjack_serve``: receive log events, and print them or keep them in a spool
- ``lumberjack_ship``: ship the lines of log files
- ``collect``: run a collector until a signal stops it, or ask one how it is
- ``collect_auth``: who may use a collector by RSocket
- ``collect_status``: ask a collector, and print what it says; forget a consumer of it
- ``spool_info``: print what a spool holds
- ``spool_forget``: forget a consumer of a spool
- ``spool_read``: print the events of a spool
- ``ttrpc_generate``: write the Python modules of .proto files
- ``ttrpc_list``: print the services and methods of .proto files
- ``ttrpc_describe``: print a service, a method, a message or an enum
- ``ttrpc_call``: call a unary method
- ``ttrpc_stream``: call a streaming method
- ``ttrpc_serve``: serve services by ttrpc until a signal stops it
- ``rsio_subscribe``: subscribe to a publisher, and print its elements
- ``conformance``: test an implementation of rsio, rule by rule

The commands share these:

- ``client``: connection, errors and signals of the commands that connect
- ``interrupt``: Ctrl-C and SIGTERM
- ``access_log``: a line for each call of ``serve``, written in a thread
- ``metrics``: the page of ``serve`` for Prometheus
- ``serving``: run a server until a signal stops it
- ``serve_workers``: the parent of several processes that serve
- ``hangup``: what a long-running command does at SIGHUP
- ``target``: import the object that a server serves
- ``data_types``: JSON that people type and read, as data of a MIME type
- ``payloads``: read payloads from arguments, files and standard input
- ``settings``: options from the environment and from a file
- ``wiretap``: show the frames of a command's connections
- ``conversation``: the frames of a connection out of its bytes
- ``frame_reader``: frames as text and fields, and without secrets
- ``capture``: the connections in a capture of packets
- ``metadata``: metadata entries, authentication and a trace from the options
- ``certificates``: load the certificates that the options name
- ``output``: print items as text or JSON
- ``event_printer``: print the batches of Lumberjack senders, one after the other
- ``event_storage``: keep them in a spool, and report how full it is
- ``status_table``: the lines of a status, with the instances of consumers
- ``room_reports``: lines in the log about a spool that is full
- ``event_lines``: log events as lines of JSON
- ``progress``: a line of the terminal that shows progress
- ``stdio``: standard input and output without blocking trio
- ``standard_streams``: standard streams that may be closed
- ``logs``: logging on standard error
- ``log_thread``: writes the log in a thread, so that no server waits for its reader

The parts of ``bench``:

- ``bench_operations``: one operation for each interaction
- ``pace``: when the requests of a fixed rate begin
- ``tally``: the counts and latencies
- ``histogram``: latencies in bounded memory

The parts of the group ``ttrpc``:

- ``ttrpc_schema``: load the services of .proto files or descriptor sets
- ``ttrpc_definitions``: definitions as text and as JSON
- ``ttrpc_messages``: messages from arguments, and to lines of output
- ``ttrpc_client``: connection, errors and signals of a call

The parts of ``lumberjack ship``:

- ``ship_grammar``: its options
- ``ship_run``: one run: signals, the time limit, the end
- ``ship_status``: its state as JSON, and on a terminal
- ``pair_writer``: events of Lumberjack version 1
- ``json_lines``: events whose fields are those of lines that are JSON objects
"""
