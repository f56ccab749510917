"""The errors of settings: one sentence with class, field, what is expected and what was given."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import attrs
import pytest

import rsocket_trio
from rsocket_trio import ClientResume, ConnectionConfig, Lease, Limits, Retry, rsio
from rsocket_trio.lumberjack import ShipperConfig


def checked_fields():
    """All fields of the package's classes that have a validator."""
    for module in pkgutil.walk_packages(rsocket_trio.__path__, "rsocket_trio."):
        if module.name.endswith("__main__"):
            continue
        for name, kind in sorted(vars(importlib.import_module(module.name)).items()):
            if inspect.isclass(kind) and attrs.has(kind) and kind.__module__ == module.name:
                for field in attrs.fields(kind):
                    if field.validator is not None:
                        yield pytest.param(kind, field, id=f"{name}.{field.name}")


class Secret:
    """A value of a type that no field takes."""

    def __repr__(self):
        return "hunter2"


@pytest.mark.parametrize(("kind", "field"), list(checked_fields()))
def test_a_value_of_a_wrong_type_is_named_and_not_shown(kind, field):
    settings = object.__new__(kind)
    with pytest.raises((TypeError, ValueError)) as caught:
        field.validator(settings, field, Secret())
    assert len(caught.value.args) == 1
    text = str(caught.value)
    assert field.name in text
    assert "not Secret" in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: rsio.RsioConfig(limits={}),
            "RsioConfig.limits must be of type RsioLimits, not dict",
        ),
        (
            lambda: ConnectionConfig(limits={}),
            "ConnectionConfig.limits must be of type Limits, not dict",
        ),
        (lambda: rsio.RsioConfig(max_ahead=0), "RsioConfig.max_ahead must be at least 1, not 0"),
        (
            lambda: rsio.RsioConfig(max_ahead=True),
            "RsioConfig.max_ahead must be of type int, not bool",
        ),
        (
            lambda: rsio.RsioConfig(hello_timeout=0),
            "RsioConfig.hello_timeout must be greater than 0, not 0",
        ),
        (
            lambda: rsio.RsioConfig(hello_timeout=float("nan")),
            "RsioConfig.hello_timeout must be greater than 0, not nan",
        ),
        (
            lambda: rsio.RsioConfig(hello_timeout="5"),
            "RsioConfig.hello_timeout must be a number, not str",
        ),
        (
            lambda: Limits(max_prefetch=2**31),
            "Limits.max_prefetch must be from 1 to 2147483647, not 2147483648",
        ),
        (lambda: Retry(jitter=2), "Retry.jitter must be from 0 to 1, not 2"),
        (
            lambda: Retry(max_delay=float("inf")),
            "Retry.max_delay must be greater than 0 and finite, not inf",
        ),
        (lambda: ShipperConfig(version=3), "ShipperConfig.version must be 1 or 2, not 3"),
        (lambda: Lease(-1, 1), "Lease.requests must be from 0 to 2147483647, not -1"),
        (
            lambda: ClientResume(token=b""),
            "ClientResume.token must have from 1 to 65535 bytes, not 0",
        ),
        (
            lambda: ClientResume(token="hunter2"),
            "ClientResume.token must be of type bytes or None, not str",
        ),
    ],
)
def test_the_texts(make, text):
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert caught.value.args == (text,)
