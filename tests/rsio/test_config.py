"""The settings of rsio: types and ranges; addresses; errors that are raised again."""

from __future__ import annotations

from traceback import format_exception_only

import pytest

from rsocket_trio import (
    ClosedByPeer,
    ConnectFailed,
    ConnectionClosed,
    RejectedSetup,
    StreamError,
    rsio,
    ttrpc,
)
from rsocket_trio.errors import fresh_copy


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ({"hello_timeout": 0}, ValueError),
        ({"goodbye_timeout": "5"}, TypeError),
        ({"connect_timeout": True}, TypeError),
        ({"max_ahead": 0}, ValueError),
        ({"max_control_size": 1.5}, TypeError),
        ({"limits": None}, TypeError),
    ],
)
def test_wrong_settings(setting, kind):
    with pytest.raises(kind):
        rsio.RsioConfig(**setting)


@pytest.mark.parametrize(
    "address",
    [
        "rsio://127.0.0.1:7980",
        "rsios://example.org:7980",
        "rsio+unix:///run/app.sock",
        "rsio+unix://@name",
        "rsio+ws://127.0.0.1:7981/rsio",
        "rsio+wss://example.org:443/rsio",
    ],
)
def test_addresses_are_read_and_written(address):
    assert str(rsio.rsio_uri(address)) == address


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "rsio:127.0.0.1", "rsio://127.0.0.1"])
def test_other_addresses_are_refused(address):
    with pytest.raises(ValueError, match="is not an address"):
        rsio.rsio_uri(address)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (rsio.GoodbyeReceived("enough"), ConnectionClosed),
        (rsio.HelloRefused("refused: enough", "enough"), ConnectFailed),
        (rsio.VersionMismatch("version", "unsupported version 1"), ConnectFailed),
        (rsio.PublisherError("enough"), rsio.RsioError),
        (rsio.PublisherError("enough", publisher="ticks"), rsio.RsioError),
    ],
)
def test_errors_can_be_raised_again(error, kind):
    twin = fresh_copy(error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)
    assert isinstance(twin, kind)


@pytest.mark.parametrize(
    ("limits", "lower", "higher"),
    [
        ({"split_size": 2**21}, "split_size", "max_part_size"),
        ({"max_part_size": 100, "split_size": 101}, "split_size", "max_part_size"),
        ({"max_part_size": 2**25}, "max_part_size", "max_element_size"),
        ({"max_parts_memory": 1000}, "max_element_size", "max_parts_memory"),
        ({"sent_text_size": 8193}, "sent_text_size", "max_text_size"),
    ],
)
def test_limits_that_contradict_each_other_are_refused(limits, lower, higher):
    with pytest.raises(ValueError, match=f"RsioLimits.{lower} is .*, above {higher}") as caught:
        rsio.RsioLimits(**limits)
    assert str(caught.value).endswith(f"lower {lower}, or raise {higher}")


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="lower max_control_size, or raise max_unsent_control"):
        rsio.RsioConfig(max_control_size=1000, max_unsent_control_size=999)
    with pytest.raises(ValueError, match="lower max_element_size, or raise max_unread_size"):
        rsio.RsioConfig(max_unread_size=2**20)


def test_limits_that_are_not_given_fit_those_that_are():
    limits = rsio.RsioLimits(max_element_size=100, max_text_size=50)
    assert limits.max_part_size == limits.split_size == 100
    assert limits.sent_text_size == 50
    limits = rsio.RsioLimits(max_element_size=2**30)
    assert limits.max_parts_memory == 2**30
    config = rsio.RsioConfig(limits=limits, max_control_size=2**25)
    assert config.max_unread_size > 2**30
    assert config.max_unsent_control_size == 2**25


@pytest.mark.parametrize("name", ["max_element_size", "max_part_size", "max_text_size"])
def test_a_limit_of_a_wrong_type_is_named_although_others_depend_on_it(name):
    with pytest.raises(TypeError, match=f"RsioLimits.{name} must be of type int, not str"):
        rsio.RsioLimits(**{name: "many"})


HOSTILE = "\x1b]0;owned\x07 two\nlines \u202e" + "x" * 5000


@pytest.mark.parametrize(
    "error",
    [
        rsio.GoodbyeReceived(HOSTILE),
        rsio.HelloRefused(f"the peer refused the connection: {HOSTILE}", HOSTILE),
        rsio.VersionMismatch(HOSTILE, HOSTILE),
        rsio.PublisherError(HOSTILE),
        rsio.PublisherError(HOSTILE, publisher=HOSTILE),
        StreamError(HOSTILE),
        ClosedByPeer(HOSTILE),
        RejectedSetup(HOSTILE),
        ttrpc.CallError(HOSTILE),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_text_of_the_peer_cannot_control_a_terminal(error):
    for text in (
        str(error),
        str(fresh_copy(error)),
        "".join(format_exception_only(error)).rstrip(),
    ):
        assert text.isprintable()
        assert "owned" in text
        assert len(text) < 3000
    whole = [each for each in vars(error).values() if each in (HOSTILE, HOSTILE.encode())]
    assert whole or error.data == HOSTILE.encode()
