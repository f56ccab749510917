"""Measures rsocket_trio beside other RSocket stacks, in one run: ``python -m benchmarks``.

    cases.py     what is measured, and its parameters
    stacks.py    who is measured: how to start each stack's server and client, and what it cannot
    harness.py   starts the programs and lets the stacks take turns, round after round
    memory.py    what an idle connection or stream costs a server
    report.py    medians, spread and ratios, as Markdown
    machine.py   what the numbers were measured on
    control.py   how the harness talks to a client program
    profiling.py one end of ours under a profiler
    compare.py   two checkouts of ours, pair by pair

setup.sh installs the peers. Every other file here, and in js, java and go, is a program of one end.
A server prints ``READY <uri>`` and serves until its standard input ends. A client takes commands
from its standard input (see `control`).
"""
