"""Settings: what they refuse."""

from __future__ import annotations

import math

import attrs
import pytest

from rsocket_trio import ConnectionConfig, Limits


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("keepalive_interval", [0, -1.0, math.nan, math.inf, 2**31 / 1000], [0.001, 2147483.647]),
        ("max_lifetime", [0, -1.0, math.nan, math.inf, 2**31 / 1000], [0.001, 2147483.647]),
        ("setup_timeout", [0, -1.0, math.nan], [0.001, math.inf]),
        ("close_timeout", [0, -1.0, math.nan], [0.001, math.inf]),
        ("fragment_size", [0, 63, 2**24], [64, 2**24 - 1]),
        ("prefetch", [0, -1], [1, 2**31 - 1]),
    ],
)
def test_connection_config(name, bad, good):
    """Values that cannot be meant are a ValueError that names the setting."""
    for value in bad:
        with pytest.raises(ValueError, match=name):
            ConnectionConfig(**{name: value})
    for value in good:
        assert getattr(ConnectionConfig(**{name: value}), name) == value


@pytest.mark.parametrize("field", attrs.fields(Limits), ids=lambda field: field.name)
def test_limits(field):
    """No limit may be 0, and the frame size and window have a largest value."""
    with pytest.raises(ValueError, match=field.name):
        Limits(**{field.name: 0})
    largest = {"max_frame_size": 2**24 - 1, "max_prefetch": 2**31 - 1}.get(field.name)
    if largest is not None:
        assert getattr(Limits(**{field.name: largest}), field.name) == largest
        with pytest.raises(ValueError, match=field.name):
            Limits(**{field.name: largest + 1})


@pytest.mark.parametrize("settings", [ConnectionConfig(), Limits()])
def test_settings_are_values(settings):
    """They cannot be changed after they were checked."""
    field = attrs.fields(type(settings))[0].name
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(settings, field, 1)


@pytest.mark.parametrize("kind", [ConnectionConfig, Limits])
def test_every_setting_is_explained(kind):
    """Each field is in the class's docstring."""
    for field in attrs.fields(kind):
        assert f"{field.name}:" in kind.__doc__
