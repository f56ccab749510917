"""Handlers by route: `Router`, its decorators, and what they understand of a function."""

from __future__ import annotations

from .router import RegisteredRoute, Router
from .signature import Interaction, Route

__all__ = ["Interaction", "RegisteredRoute", "Route", "Router"]
