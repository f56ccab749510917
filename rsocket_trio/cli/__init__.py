"""The command line ``rsocket-trio``, on the public API only.

- ``main``: dispatch; what a failure prints and which status it gives
- ``grammar``, ``options``, ``command_parser``: every command and option; parsed
  and checked without connecting
- ``exits``: the exit statuses, and ``Failure``
- ``serve``, ``request``, ``stream``, ``bench``, ``decode``: a command, or commands of one kind,
  each; imported when it is run
- ``client``, ``interrupt``: what the commands that connect have in common: connection, signals
- ``bench_operations``, ``tally``, ``histogram``: what a bench does, counts and computes
- ``target``, ``payloads``, ``metadata``, ``stdio``, ``output``, ``logs``: one job each: what is
  served, where payloads come from, and their metadata, standard input and output without blocking
  trio, how items are printed, logging
"""
