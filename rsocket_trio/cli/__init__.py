"""The command line ``rsocket-trio``, on the public API only.

The modules, in reading order. What every run goes through:

- ``main``: dispatch; what a failure prints and which status it gives
- ``grammar``: every command and option, and what can be checked without connecting
- ``command_parser``: a parser that takes options anywhere
- ``options``: the options and types of arguments that several commands share
- ``exits``: the exit statuses, and ``Failure``

The commands, imported when they are run:

- ``serve``: serve a target until a signal stops it
- ``request``: one message to the peer, and at most one answer
- ``stream``: the items of a stream, as they arrive
- ``bench``: what a peer does in a second, and how long it takes
- ``decode``: what frames say, a line each

What they have in common:

- ``client``: connection, errors and signals of the commands that connect
- ``interrupt``: Ctrl-C and SIGTERM
- ``target``: what is served, from a name to an object
- ``payloads``: where the bytes of a payload come from
- ``metadata``: entries, authentication and a trace from the command line
- ``certificates``: certificates that the options name
- ``output``: how items are printed
- ``stdio``: standard input and output without blocking trio
- ``standard_streams``: the same where whoever started us has closed them
- ``logs``: logging on standard error

What a bench is made of:

- ``bench_operations``: one operation for each interaction
- ``tally``: what has been measured so far
- ``histogram``: latencies in bounded memory
"""
