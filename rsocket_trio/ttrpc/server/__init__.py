"""The server: services, the calls of one connection, and `serve`.

The modules, in reading order:

- ``service``: a `Service` is a set of methods with their handlers
- ``signature``: the kind of a method and its messages, from the annotations of a handler
- ``call``: the facts about a call that a handler may ask for
- ``bound``: a method with all that a connection needs to run its handler, middleware around it
- ``incoming``: from a frame to its call; accepts or refuses calls
- ``first_steps``: runs the handlers of unary calls where their requests are dispatched
- ``calls``: a call, from its request to its last frame
- ``replies``: sends the frames of calls
- ``outcomes``: what an exception of a handler becomes on the wire
- ``connection``: puts the parts of a connection together
- ``server``: `serve`, and the server as applications see it
"""
