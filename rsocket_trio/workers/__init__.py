"""Several processes that serve the same addresses: `serve_workers`.

A small parent without application code listens. It accepts each connection and hands it to the
worker with the fewest open ones. A worker is a fresh interpreter, whose servers get their
connections from the parent, and know no difference.

The modules, in reading order:

- ``messages``: what parent and worker say to each other, without I/O
- ``first_frame``: whether the first bytes of a connection are a RESUME, without I/O
- ``channel``: the parent's end of the socket to a worker: what was handed over, and what has ended
- ``parent``: `serve_workers`: the processes, their generations, and who gets a connection
- ``worker``: the program of a worker
"""

from __future__ import annotations

from .parent import Workers, WorkersFailed, WorkerStatus, serve_workers
from .worker import WorkerInfo, this_worker

__all__ = [
    "WorkerInfo",
    "WorkerStatus",
    "Workers",
    "WorkersFailed",
    "serve_workers",
    "this_worker",
]
