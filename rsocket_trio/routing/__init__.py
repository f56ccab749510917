"""Handlers by route: `Router`, its decorators, and the client's side, `Caller`.

The modules, in reading order. A router, and what is registered on it:

- ``router``: `Router`, as applications use it
- ``kinds``: what handlers answer: interactions, and deliveries of other protocols
- ``templates``: routes with variables, and the search for the handler of a route
- ``parameters``: the parameters of handlers, and where their values come from
- ``marks``: the marks of parameters that the data of the peer never fill
- ``variables``: the variables of a route as values
- ``signature``: what a handler takes and returns, read once from its annotations
- ``registered``: a handler with its settings and its layers
- ``layers``: what a router, an inclusion or a handler puts around requests
- ``table``: the handlers of a router, and the routers it includes

Who is admitted:

- ``access``: what an authenticator is asked about
- ``admitted``: how long an authentication holds, and what ends with it
- ``hooks``: how the functions that admit connections and requests are called
- ``guards``: which of these functions must admit a connection or a request

What is around a request:

- ``call``: one handled request
- ``one_block``: how one block of the application is entered and left
- ``middleware``: code of the application around every request, and how it is run
- ``call_limits``: middleware that limits how many calls there are
- ``traffic``: the items and bytes of a call, for middleware that looks at them
- ``call_meter``: middleware that counts calls by route and outcome
- ``access_log``: middleware that writes a line about each call
- ``deadlines``: how long a requester waits, sent with its requests
- ``error_map``: which error the requester gets for which exception

What is made for handlers:

- ``providers``: where objects come from that handlers need
- ``plans``: which providers the handlers of a router need, and in which order
- ``supplies``: what providers have made, for a served router, a connection and a request
- ``background``: work that goes on when its request is answered

On one connection:

- ``bound``: a router on one connection
- ``finder``: from the metadata of a request to its handler
- ``request``: what a router knows of a request, and where it is handled
- ``handler``: a handler on one connection, with what fills its parameters and writes its result
- ``converted_streams``: streams of payloads as streams of objects, and back
- ``owned_items``: the items of an answer, within a block that lives as long as they do
- ``refusals``: the texts for peer and log, of requests that are refused or fail

Connections of other protocols:

- ``stand_ins``: what stands for the SETUP and the requester of a peer of another protocol
- ``admission``: asks the guards about a connection of another protocol
- ``events``: the handler of events, on one connection of their sender

The side of the client:

- ``declarations``: handlers that both ends share: marks, and what is marked
- ``declared_calls``: from the arguments of a call to the request for a declared handler
- ``caller``: the client's side of a router
- ``outgoing``: middleware around the requests that the application makes

For people and tools:

- ``descriptions``: what a router answers, for people and tools
- ``client_module``: a module for clients that do not have the code of the server
"""

from __future__ import annotations

from ..protocol.interaction import Interaction
from .access import Authenticate, RequestFacts
from .access_log import AccessLog
from .admitted import Admitted
from .background import Background, BackgroundStatistics, open_background
from .call import AnyCall, Call, Outcome
from .call_limits import concurrency_limit, rate_limit
from .call_meter import CallMeter
from .caller import Caller, ItemStream
from .deadlines import DEADLINE_TYPE, Deadlines, DeadlineStatistics, send_deadline
from .declarations import (
    DeclaredStream,
    MarkStream,
    declaration,
    fire_and_forget,
    request_channel,
    request_response,
    request_stream,
)
from .descriptions import (
    ArgumentDescription,
    Introspection,
    RouteDescription,
    TypeDescription,
)
from .error_map import ErrorMap
from .guards import OnResume, OnSetup
from .kinds import Delivery
from .marks import Principal, Provided
from .middleware import Around, Middleware
from .outgoing import OutgoingCall, OutgoingMiddleware
from .parameters import Route, injected
from .router import Router
from .traffic import Traffic

__all__ = [
    "DEADLINE_TYPE",
    "AccessLog",
    "Admitted",
    "AnyCall",
    "ArgumentDescription",
    "Around",
    "Authenticate",
    "Background",
    "BackgroundStatistics",
    "Call",
    "CallMeter",
    "Caller",
    "DeadlineStatistics",
    "Deadlines",
    "DeclaredStream",
    "Delivery",
    "ErrorMap",
    "Interaction",
    "Introspection",
    "ItemStream",
    "MarkStream",
    "Middleware",
    "OnResume",
    "OnSetup",
    "Outcome",
    "OutgoingCall",
    "OutgoingMiddleware",
    "Principal",
    "Provided",
    "RequestFacts",
    "Route",
    "RouteDescription",
    "Router",
    "Traffic",
    "TypeDescription",
    "concurrency_limit",
    "declaration",
    "fire_and_forget",
    "injected",
    "open_background",
    "rate_limit",
    "request_channel",
    "request_response",
    "request_stream",
    "send_deadline",
]
