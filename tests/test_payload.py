"""Payload."""

from __future__ import annotations

from rsocket_trio import Payload


def test_absent_and_empty_metadata_differ():
    """None is absent, b"" is present and empty."""
    assert Payload(b"x") == Payload(b"x", None)
    assert Payload(b"x", b"") != Payload(b"x", None)
    assert Payload() == Payload(b"", None)


def test_payloads_are_values():
    """They are compared by contents, and can be keys."""
    assert len({Payload(b"x"), Payload(b"x"), Payload(b"x", b"")}) == 2
