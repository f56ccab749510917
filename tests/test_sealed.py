"""Objects that applications are given come from where they come from, and show what is theirs."""

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


def test_which_are_sealed():
    """Those that hold a part of the engine."""
    assert {cls.__name__ for cls in SEALED} == {
        "ConnectionLeases",
        "ItemStream",
        "MemoryTransport",
        "PayloadBody",
        "PayloadStream",
        "Requester",
        "ResumableSession",
        "Server",
    }


@pytest.mark.parametrize("cls", SEALED, ids=lambda cls: cls.__name__)
def test_their_constructors_are_not_public(cls):
    """Calling one, or deriving from it, says where an object comes from."""
    for call in (cls, lambda: cls(1, two=2)):
        with pytest.raises(TypeError, match=f"^{cls.__name__} has no public constructor: .* give"):
            call()
    with pytest.raises(TypeError, match=f"^{cls.__name__} cannot be subclassed: .* give"):
        type("Derived", (cls,), {})


@pytest.mark.parametrize("cls", SEALED, ids=lambda cls: cls.__name__)
def test_no_method_of_the_engine_is_among_theirs(cls):
    """What fills, ends or drives them is not reached through them."""
    public = {name for name in dir(cls) if not name.startswith("_")}
    engine = {"deliver", "end", "ended", "failure", "max_window", "wait_begun", "receive_frame"}
    engine |= {"attach", "detach", "restart", "run", "spend", "held", "granted", "on_lease"}
    assert not public & engine


def test_this_package_makes_them():
    """`make` does what calling a class does, also where it has type parameters."""

    class Given(metaclass=Sealed, given="nobody gives one"):
        def __init__(self, one, *, two):
            self.both = (one, two)

    made = sealed.make(Given, 1, two=2)
    assert isinstance(made, Given)
    assert made.both == (1, 2)
    with pytest.raises(TypeError, match="nobody gives one"):
        Given(1, two=2)
