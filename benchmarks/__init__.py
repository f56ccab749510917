"""Measures rsocket_trio and other RSocket stacks in one run: ``python -m benchmarks``.

    cases.py     the cases and their parameters
    stacks.py    the stacks: how to start their servers and clients, and the cases they cannot run
    harness.py   starts the programs and measures the stacks in turns, round by round
    memory.py    measures the memory of idle connections and streams in a server
    report.py    writes medians, spread and ratios as Markdown
    machine.py   describes the machine
    control.py   the protocol between the harness and a client program
    profiling.py runs a server or client of rsocket_trio under a profiler
    compare.py   compares two checkouts of rsocket_trio, in pairs

setup.sh installs the peers. The folders lumberjack, reactive_streams, rsio, spark, ttrpc and
values have cases of their own. Every other file here, and in js, java and go, is a server or a
client. A server prints ``READY <uri>`` and serves until its standard input ends. A client reads
commands from its standard input (see `control`).
"""
