"""The names of the five interactions of RSocket: `Interaction`."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Interaction"]


class Interaction(StrEnum):
    """The five interactions. The names are those of the decorators and of the requester's methods.

    Every member is a string too: ``Interaction.REQUEST_STREAM == "request_stream"``.
    """

    REQUEST_RESPONSE = "request_response"
    FIRE_AND_FORGET = "fire_and_forget"
    REQUEST_STREAM = "request_stream"
    REQUEST_CHANNEL = "request_channel"
    METADATA_PUSH = "metadata_push"

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream of items."""
        return self in (Interaction.REQUEST_STREAM, Interaction.REQUEST_CHANNEL)
