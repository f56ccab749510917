"""Valid and invalid addresses, and the messages of the errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import uri as uri_module
from rsocket_trio.uri import Scheme, Uri, as_uri, parse_uri, register_scheme


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("tcp://127.0.0.1:7878", Uri(scheme="tcp", host="127.0.0.1", port=7878)),
        ("tcp://localhost:0", Uri(scheme="tcp", host="localhost", port=0)),
        ("tls://[::1]:65535", Uri(scheme="tls", host="::1", port=65535)),
        ("tcp://[fe80::1%eth0]:1", Uri(scheme="tcp", host="fe80::1%eth0", port=1)),
        ("unix:///run/app.sock", Uri(scheme="unix", path="/run/app.sock")),
        ("unix:///run/a%20b%3F.sock", Uri(scheme="unix", path="/run/a b?.sock")),
        ("ws://h:7879/rsocket", Uri(scheme="ws", host="h", port=7879, path="/rsocket")),
        ("wss://h:1/a/b?c=d&e", Uri(scheme="wss", host="h", port=1, path="/a/b?c=d&e")),
    ],
)
def test_an_address_is_read_and_written_back(text: str, uri: Uri) -> None:
    """Every form of address is split into its parts and printed as it was."""
    assert parse_uri(text) == uri
    assert str(uri) == text


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("ws://h", "ws://h:80/"),
        ("wss://h/x", "wss://h:443/x"),
        ("TCP://Host:1/", "tcp://host:1"),
    ],
)
def test_missing_parts_are_filled_in(text: str, full: str) -> None:
    """Port and path of a WebSocket address may be left out; its text always has them."""
    assert str(parse_uri(text)) == full


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("localhost:7878", "no scheme"),
        ("", "no scheme"),
        ("http://h:1", "'http' is not one of tcp, tls, unix, ws, wss; an"),
        ("rsios://h:1", "is not one of .*: use rsocket_trio.rsio for it, or .* rsocket-trio rsio"),
        ("ttrpc+unix:///a", "is not one of .*: use rsocket_trio.ttrpc for it"),
        ("lumberjacks://h", "is not one of .*: use rsocket_trio.lumberjack for it"),
        ("tcp://h", "no port"),
        ("tls://h", "no port"),
        ("tcp://:1", "no host"),
        ("ws://", "no host"),
        ("tcp://h:65536", "its port is not a number from 0 to 65535"),
        ("tcp://h:x", "its port is not"),
        ("tcp://h:1/path", "a tcp address has no path"),
        ("tcp://h:1?q=1", "a tcp address has no path"),
        ("tcp://[::1:1", "its host cannot be read"),
        ("tcp://[::g]:1", "address"),
        ("tcp://[v1.a:b]:1", "is not an IPv6 address"),
        ("tcp://::1:1", "its port is not|not an IPv6|no host"),
        ("tcp://h :1", "blank"),
        ("tcp://h:1\n", "blank"),
        ("ws://h:1/a b", "blank"),
        ("ws://h:1/\u00e9", "ASCII"),
        ("ws://h:1/a#b", "fragment"),
        ("ws://h:1/#", "fragment"),
        ("ws://me:secret@h:1/", "password"),
        ("unix://run/app.sock", "absolute"),
        ("unix://", "no path"),
        ("unix:///", "no path"),
        ("unix:///a?b", "%3F"),
        ("unix:///a%00b", "NUL"),
    ],
)
def test_a_wrong_address_is_explained(text: str, why: str) -> None:
    """The error names the fault and gives an address of the right form."""
    with pytest.raises(ValueError, match=why) as caught:
        parse_uri(text)
    shown = str(caught.value).rpartition("looks like ")[2].strip("'")
    parse_uri(shown)


@pytest.mark.parametrize(
    "text", ["tcp://me:secret@h:1", "x://me:secret@h", "ws://me:secret@a@h:1/ b", "tcp://:secret@"]
)
def test_a_password_in_a_wrong_address_is_not_shown(text: str) -> None:
    """Errors are logged."""
    with pytest.raises(ValueError, match=r"//\*\*\*@") as caught:
        parse_uri(text)
    assert "secret" not in str(caught.value)


@given(st.text(max_size=30) | st.text(max_size=30).map("ws://h:1/{}".format))
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    """A valid text is the same after printing and reading; others raise ValueError only."""
    try:
        uri = parse_uri(text)
    except ValueError:
        return
    assert parse_uri(str(uri)) == uri


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30))
def test_any_path_of_a_socket_file_can_be_written(name: str) -> None:
    """Every file name that a file system allows has an address."""
    uri = Uri(scheme="unix", path="/" + name)
    assert parse_uri(str(uri)) == uri


def test_the_meaning_of_a_scheme() -> None:
    """The scheme tells WebSocket and TLS; the authority has brackets where needed."""
    assert [parse_uri(f"{s}://[::1]:1").is_websocket for s in ("tcp", "tls", "ws", "wss")] == [
        False, False, True, True,
    ]  # fmt: skip
    assert [parse_uri(f"{s}://[::1]:1").is_encrypted for s in ("tcp", "tls", "ws", "wss")] == [
        False, True, False, True,
    ]  # fmt: skip
    assert parse_uri("tcp://[::1]:1").authority == "[::1]:1"
    assert not parse_uri("unix:///x").authority


def test_each_wire_accepts_its_own_schemes_only():
    """RSocket does not dial an address of another wire, nor the other wire one of RSocket."""
    with pytest.raises(ValueError, match="'other' is not one of tcp, tls, unix, ws, wss"):
        parse_uri("other://127.0.0.1")
    other = Scheme(name="other", wire="a test", example="other://127.0.0.1:5", default_port=5)
    register_scheme(other)
    register_scheme(other)  # importing a module twice is no mistake
    try:
        uri = parse_uri("other://127.0.0.1", "a test")
        assert (str(uri), uri.is_encrypted) == ("other://127.0.0.1:5", False)
        assert as_uri(uri, "a test") is uri
        for address in ("other://127.0.0.1", uri):
            with pytest.raises(ValueError, match="'other' is not one of tcp, tls, unix, ws, wss"):
                as_uri(address)
        with pytest.raises(
            ValueError,
            match=r"'tcp' is not one of other: use rsocket_trio.serve .* 'other://127.0.0.1:5'",
        ):
            as_uri("tcp://127.0.0.1:1", "a test")
        with pytest.raises(ValueError, match="there is another scheme 'other'"):
            register_scheme(Scheme(name="other", wire="rsocket", example="other://x:1"))
    finally:
        del uri_module._REGISTERED["other"]
