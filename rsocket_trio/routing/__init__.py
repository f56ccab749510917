"""Handlers by route: `Router`, its decorators, and what they understand of a function."""

from __future__ import annotations

from .access import RequestFacts, constant_time_equal
from .caller import Caller, ItemStream
from .router import RegisteredRoute, Router
from .signature import Interaction, Principal, Route

__all__ = [
    "Caller",
    "Interaction",
    "ItemStream",
    "Principal",
    "RegisteredRoute",
    "RequestFacts",
    "Route",
    "Router",
    "constant_time_equal",
]
