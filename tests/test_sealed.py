"""Objects made for applications cannot be constructed by them, and hide internal methods."""

from __future__ import annotations

import pytest

import rsocket_trio
import rsocket_trio.transports
from rsocket_trio import sealed
from rsocket_trio.sealed import Sealed

SEALED = [
    thing
    for module in (rsocket_trio, rsocket_trio.transports)
    for name in module.__all__
    if isinstance(thing := getattr(module, name), Sealed)
]


def test_sealed_classes():
    """All classes that hold an internal object."""
    assert {cls.__name__ for cls in SEALED} == {
        "AnyCall",
        "Background",
        "Call",
        "ConnectionLeases",
        "ItemStream",
        "MemoryTransport",
        "OutgoingCall",
        "PayloadBody",
        "PayloadStream",
        "Pool",
        "Requester",
        "ResumableSession",
        "Server",
    }


@pytest.mark.parametrize("cls", SEALED, ids=lambda cls: cls.__name__)
def test_their_constructors_are_not_public(cls):
    """Calling one, or deriving from it, is an error that says where the objects come from."""
    for call in (cls, lambda: cls(1, two=2)):
        with pytest.raises(TypeError, match=f"^{cls.__name__} has no public constructor: .* give"):
            call()
    with pytest.raises(TypeError, match=f"^{cls.__name__} cannot be subclassed: .* give"):
        type("Derived", (cls,), {})


@pytest.mark.parametrize("cls", SEALED, ids=lambda cls: cls.__name__)
def test_internal_methods_are_hidden(cls):
    """Methods that fill, end or drive an object are not among its own."""
    public = {name for name in dir(cls) if not name.startswith("_")}
    engine = {"deliver", "end", "ended", "failure", "max_window", "wait_begun", "receive_frame"}
    engine |= {"attach", "detach", "restart", "run", "spend", "held", "granted", "on_lease"}
    own = {"end"} if cls is rsocket_trio.Server else set()  # ends connections of some peers
    assert public & engine == own


def test_make_constructs_sealed_objects():
    """`make` does the same as a call of the class, also with type parameters."""

    class Given(metaclass=Sealed, given="there is no source"):
        def __init__(self, one, *, two):
            self.both = (one, two)

    made = sealed.make(Given, 1, two=2)
    assert isinstance(made, Given)
    assert made.both == (1, 2)
    with pytest.raises(TypeError, match="there is no source"):
        Given(1, two=2)
