"""The part of the benchmark about typed requests: classes in, classes out.

ends.py          the stacks and cases
messages.py      what is sent, as dataclasses
messages.proto   the same for gRPC
asking.py        what the clients on asyncio share
ours_*.py        the programs of rsocket_trio: `Router` and `Caller`
fastapi_*.py     a server of FastAPI, and a client of aiohttp
websockets_*.py  the programs of websockets, with msgspec
grpc_*.py        the programs of grpc.aio
rsocket_py_*.py  the programs of rsocket-py, with its router and `json`

*_application.py are servers with a middleware and a dependency, both from shop.py.
"""
