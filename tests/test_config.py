"""Settings, and the values they refuse."""

from __future__ import annotations

import math
import re

import attrs
import pytest

from rsocket_trio import ConnectionConfig, Limits
from rsocket_trio.collector import CollectorLimits, IngestConfig
from rsocket_trio.collector.ingest_config import COLLECTOR_CONFIG
from rsocket_trio.logfiles.multiline import MultilineRule
from rsocket_trio.logfiles.shipment import Following
from rsocket_trio.lumberjack import LumberjackConfig, LumberjackLimits, ShipperConfig
from rsocket_trio.spool import SpoolConfig
from rsocket_trio.ttrpc import TtrpcLimits


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("keepalive_interval", [0, -1.0, math.nan, math.inf, 2**31 / 1000], [0.001, 2147483.647]),
        ("max_lifetime", [0, -1.0, math.nan, math.inf, 2**31 / 1000], [0.001, 2147483.647]),
        ("setup_timeout", [0, -1.0, math.nan], [0.001, math.inf]),
        ("close_timeout", [0, -1.0, math.nan], [0.001, math.inf]),
        ("fragment_size", [0, 63, 2**24], [64, 2**24 - 1]),
        ("prefetch", [0, -1, 65537], [1, 65536]),
    ],
)
def test_a_wrong_value_is_named(name, bad, good):
    """A wrong value is a ValueError that names the setting."""
    for value in bad:
        with pytest.raises(ValueError, match=name):
            ConnectionConfig(**{name: value})
    for value in good:
        assert getattr(ConnectionConfig(**{name: value}), name) == value


@pytest.mark.parametrize("field", attrs.fields(Limits), ids=lambda field: field.name)
def test_limits_have_a_range(field):
    """Every limit is above 0, and the frame size and window have a largest value."""
    with pytest.raises(ValueError, match=field.name):
        Limits(**{field.name: 0})
    largest = {
        "max_frame_size": 2**24 - 1,
        "max_prefetch": 2**31 - 1,
        "max_client_lifetime": (2**31 - 1) / 1000,
    }.get(field.name)
    if largest is not None:
        assert getattr(Limits(**{field.name: largest}), field.name) == largest
        with pytest.raises(ValueError, match=field.name):
            Limits(**{field.name: largest + 1})


@pytest.mark.parametrize("name", ["fragment_size", "prefetch"])
def test_sizes_must_be_whole_numbers(name):
    """A wrong type is refused here, and not by the first request."""
    with pytest.raises(TypeError, match=name):
        ConnectionConfig(**{name: 100.5})
    with pytest.raises(TypeError, match="max_active_requests"):
        Limits(max_active_requests=100.5)


def test_settings_that_contradict_each_other():
    """The default of a setting keeps to its limit; a value beyond it is an error."""
    config = ConnectionConfig(limits=Limits(max_prefetch=16, max_frame_size=1000))
    assert (config.prefetch, config.fragment_size) == (16, 1000)
    with pytest.raises(ValueError, match=r"prefetch is 17, above limits\.max_prefetch \(16\)"):
        attrs.evolve(config, prefetch=17)
    with pytest.raises(ValueError, match=r"prefetch is 256, above limits\.max_prefetch \(16\)"):
        attrs.evolve(ConnectionConfig(), limits=Limits(max_prefetch=16))
    wide = ConnectionConfig(prefetch=2**31 - 1, limits=Limits(max_prefetch=2**31 - 1))
    assert wide.prefetch == 2**31 - 1
    # The peer may accept more than we do.
    assert attrs.evolve(config, fragment_size=2000).fragment_size == 2000


@pytest.mark.parametrize("kind", [Limits, TtrpcLimits])
def test_a_connection_does_not_end_before_its_requests_wait(kind):
    """The second limit of the same answers is not below the first one."""
    assert kind(max_control_size=2**24).max_unsent_control_size == 2**24
    with pytest.raises(ValueError, match="max_control_size is 1001, above max_unsent") as caught:
        kind(max_control_size=1001, max_unsent_control_size=1000)
    text = "lower max_control_size, or raise max_unsent_control_size"
    assert str(caught.value).endswith(text)


@pytest.mark.parametrize("settings", [ConnectionConfig(), Limits()])
def test_settings_cannot_be_changed(settings):
    """They are frozen after they were checked."""
    field = attrs.fields(type(settings))[0].name
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(settings, field, 1)


@pytest.mark.parametrize("kind", [ConnectionConfig, Limits])
def test_every_setting_is_explained(kind):
    """Each field is in the class's docstring."""
    for field in attrs.fields(kind):
        assert f"{field.name}:" in kind.__doc__


NUMBERS = [
    pytest.param(kind, field, id=f"{kind.__name__}.{field.name}")
    for kind in (CollectorLimits, IngestConfig, SpoolConfig)
    for field in attrs.fields(kind)
    if field.type in ("int", "float")
]


@pytest.mark.parametrize(("kind", "field"), NUMBERS)
def test_the_least_values(kind, field):
    """Nothing is unlimited by mistake, and only a batch may wait for no others."""
    wrong = [-1, math.inf, math.nan] if field.type == "float" else [-1, 1.5]
    if field.name == "linger":
        assert kind(linger=0).linger == 0
        wrong.append(-0.001)
    else:
        wrong.append(0)
    assert getattr(kind(**{field.name: 1}), field.name) == 1
    for value in wrong:
        with pytest.raises((TypeError, ValueError), match=field.name):
            kind(**{field.name: value})


@pytest.mark.parametrize(
    ("kind", "name", "least", "most"),
    [
        (ShipperConfig, "compression_level", 0, 9),
        (ShipperConfig, "version", 1, 2),
        (IngestConfig, "max_granted_events", 1, 65536),
        *[(LumberjackLimits, field.name, 1, 2**32 - 1) for field in attrs.fields(LumberjackLimits)],
    ],
)
def test_ranges(kind, name, least, most):
    """What the protocols allow, and no more."""
    for value in (least, most):
        assert getattr(kind(**{name: value}), name) == value
    for value in (least - 1, most + 1):
        with pytest.raises(ValueError, match=name):
            kind(**{name: value})


DEFAULTS = [
    pytest.param(kind, field, id=f"{kind.__name__}.{field.name}")
    for kind in (Following, LumberjackConfig, LumberjackLimits, MultilineRule, ShipperConfig)
    for field in attrs.fields(kind)
    if isinstance(field.default, int | float) and not isinstance(field.default, bool)
]


@pytest.mark.parametrize(("kind", "field"), NUMBERS + DEFAULTS)
def test_defaults_are_what_their_explanation_says(kind, field):
    """Operators plan by these numbers."""
    entry = rf"^ {{8}}{field.name}: (.*?)(?=^ {{8}}\w+: |\Z)"
    text = re.search(entry, kind.__doc__, re.MULTILINE | re.DOTALL)[1]
    text = " ".join(text.split())
    if field.name == "instance_timeout":
        assert "Seven days" in text
        assert field.default == 7 * 86400
        return
    is_time = isinstance(field.default, float)
    forms = [f"{field.default:g} s"] if is_time else [str(field.default)]
    forms += [f"{field.default / 2**n:g} {unit}" for n, unit in ((10, "KiB"), (20, "MiB"))]
    assert any(re.search(rf"(?<![\d.]){re.escape(form)}(?=[.:,;]|$)", text) for form in forms), text


def test_what_a_connection_of_a_collector_holds():
    """Its explanation counts with these: an event as by Lumberjack, 130 MB, four frames."""
    limits, mib = COLLECTOR_CONFIG.limits, 2**20
    assert limits.max_payload_size == LumberjackLimits().max_event_size == 16 * mib
    held = (limits.max_reassembly_size, limits.max_requests_size, limits.max_unread_size)
    assert held == (32 * mib, 32 * mib, 64 * mib)
    assert 4 * COLLECTOR_CONFIG.fragment_size == mib
