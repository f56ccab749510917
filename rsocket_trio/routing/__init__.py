"""Handlers by route: `Router`, its decorators, and what they understand of a function.

The modules, in reading order:

- ``router``: handlers by route, as applications register them
- ``signature``: what a handler wants and gives, read once from its annotations
- ``access``: who is asking: the hook that authenticates connections and requests
- ``guards``: what stands between a connection and the handlers
- ``bound``: a router on one connection
- ``finder``: from the metadata of a request to its handler
- ``request``: what a router knows of a request
- ``handler``: a handler on one connection, with all that its parameters and its result need
- ``converted_streams``: streams of payloads as streams of objects, and back
- ``refusals``: what is said of a request that is refused, or whose handler fails
- ``caller``: the client's side of a router
"""

from __future__ import annotations

from ..protocol.interaction import Interaction
from .access import Authenticate, RequestFacts
from .caller import Caller, ItemStream
from .guards import OnResume, OnSetup
from .router import RegisteredRoute, Router
from .signature import Principal, Route

__all__ = [
    "Authenticate",
    "Caller",
    "Interaction",
    "ItemStream",
    "OnResume",
    "OnSetup",
    "Principal",
    "RegisteredRoute",
    "RequestFacts",
    "Route",
    "Router",
]
