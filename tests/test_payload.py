"""Payload and NO_PAYLOAD."""

from __future__ import annotations

from rsocket_trio import NO_PAYLOAD, Payload


def test_absent_and_empty_metadata_differ():
    """None is absent, b"" is present and empty."""
    assert Payload(b"x") == Payload(b"x", None)
    assert Payload(b"x", b"") != Payload(b"x", None)
    assert Payload() == Payload(b"", None)


def test_payloads_are_values():
    """They are compared by contents, and can be keys."""
    assert len({Payload(b"x"), Payload(b"x"), Payload(b"x", b"")}) == 2


def test_no_payload_is_told_by_identity():
    """It equals an empty payload, so only ``is`` tells it apart."""
    assert Payload() == NO_PAYLOAD
    assert NO_PAYLOAD is not Payload()
