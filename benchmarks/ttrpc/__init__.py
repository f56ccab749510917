"""The ttrpc part of the benchmark.

ends.py       the stacks and cases
memory.py     measures the memory of programs and of idle connections
imported.py   a program that imports packages, for its memory
messages.py   the service, and its messages as bytes
ours_*.py     the programs of rsocket_trio
grpc_*.py     the programs of grpcio, with asyncio
go            the programs of containerd's ttrpc
"""
