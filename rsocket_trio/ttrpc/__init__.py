"""ttrpc, the protocol by which containerd speaks with its shims and plugins."""

from __future__ import annotations

__all__: list[str] = []
