"""Without protobuf the errors name the extra."""

from __future__ import annotations

import sys

import pytest

from rsocket_trio.ttrpc.descriptors import Descriptors
from rsocket_trio.ttrpc.extras import require


@pytest.mark.parametrize("name", ["google", "google.protobuf"])
def test_without_protobuf(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The error says what to install."""
    monkeypatch.delitem(sys.modules, "google.protobuf", raising=False)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'rsocket-trio\[ttrpc\]'"):
        require("google.protobuf.json_format")
    with pytest.raises(ImportError, match=r"pip install 'rsocket-trio\[ttrpc\]'"):
        Descriptors([])


def test_modules_inside_protobuf() -> None:
    """A module is imported; one that is missing inside protobuf is another error."""
    assert require("google.protobuf.json_format").__name__ == "google.protobuf.json_format"
    with pytest.raises(ModuleNotFoundError, match=r"google\.protobuf\.absent"):
        require("google.protobuf.absent")
