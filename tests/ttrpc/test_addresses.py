"""The addresses of ttrpc: every form, and the errors."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.ttrpc.addresses import ttrpc_uri
from rsocket_trio.uri import AddressKind, Uri, kind_of, parse_uri

FORMS = [
    ("unix:///run/app.sock", Uri(scheme="ttrpc+unix", path="/run/app.sock")),
    ("unix:///run/a%20b%3F%40:1", Uri(scheme="ttrpc+unix", path="/run/a b?@:1")),
    ("unix://@name", Uri(scheme="ttrpc+unix", path="@name")),
    ("unix://@/containerd-shim/a.sock", Uri(scheme="ttrpc+unix", path="@/containerd-shim/a.sock")),
    ("unix://@a%00b%3Fc", Uri(scheme="ttrpc+unix", path="@a\0b?c")),
    ("tcp://127.0.0.1:0", Uri(scheme="ttrpc+tcp", host="127.0.0.1")),
    ("tcp://[::1]:1024", Uri(scheme="ttrpc+tcp", host="::1", port=1024)),
    ("vsock://3:1024", Uri(scheme="ttrpc+vsock", host="3", port=1024)),
    ("vsock://any:0", Uri(scheme="ttrpc+vsock", host="any")),
    ("vsock://-1:1024", Uri(scheme="ttrpc+vsock", host="any", port=1024)),
    ("vsock://4294967295:1024", Uri(scheme="ttrpc+vsock", host="any", port=1024)),
    ("vsock://HOST:4294967294", Uri(scheme="ttrpc+vsock", host="2", port=2**32 - 2)),
    ("vsock://local:1/", Uri(scheme="ttrpc+vsock", host="1", port=1)),
    ("vsock://hypervisor:1", Uri(scheme="ttrpc+vsock", host="0", port=1)),
    ("hvsock:///run/v.sock:1024", Uri(scheme="ttrpc+hvsock", path="/run/v.sock", port=1024)),
    ("hvsock:///run/v.sock?port=1024", Uri(scheme="ttrpc+hvsock", path="/run/v.sock", port=1024)),
    ("hvsock:///run/v:7?port=1024", Uri(scheme="ttrpc+hvsock", path="/run/v:7", port=1024)),
    ("hvsock:///run/v%3A7:1024", Uri(scheme="ttrpc+hvsock", path="/run/v:7", port=1024)),
    ("fd:3", Uri(scheme="ttrpc+fd", host="3")),
    ("fd://3", Uri(scheme="ttrpc+fd", host="3")),
    ("FD://003", Uri(scheme="ttrpc+fd", host="3")),
    ("systemd:", Uri(scheme="ttrpc+systemd")),
    ("systemd://a.socket", Uri(scheme="ttrpc+systemd", host="a.socket")),
]


@pytest.mark.parametrize(("text", "uri"), FORMS)
def test_each_form_is_read_with_and_without_the_prefix(text: str, uri: Uri) -> None:
    """Both forms are the same `Uri`, and so is its text."""
    assert ttrpc_uri(text) == ttrpc_uri(f"ttrpc+{text}") == uri
    assert ttrpc_uri(uri) is uri
    assert str(uri).startswith("ttrpc+")
    assert ttrpc_uri(str(uri)) == uri
    assert parse_uri(str(uri), "ttrpc") == uri


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        (Uri(scheme="ttrpc+unix", path="@name/a b"), "ttrpc+unix://@name/a%20b"),
        (Uri(scheme="ttrpc+vsock", host="any", port=5), "ttrpc+vsock://any:5"),
        (Uri(scheme="ttrpc+hvsock", path="/v:1", port=5), "ttrpc+hvsock:///v%3A1:5"),
        (Uri(scheme="ttrpc+fd", host="3"), "ttrpc+fd://3"),
    ],
)
def test_the_text_of_an_address(uri: Uri, text: str) -> None:
    """There is one way to write each address."""
    assert str(uri) == text


def test_an_absolute_path_is_the_path_of_a_socket() -> None:
    """As containerd prints it, so nothing in it is decoded."""
    uri = ttrpc_uri("/run/containerd/s/100%25 a?b#c")
    assert uri == Uri(scheme="ttrpc+unix", path="/run/containerd/s/100%25 a?b#c")
    assert ttrpc_uri(str(uri)) == uri
    for path in ("/", "/a\0b"):
        with pytest.raises(ValueError, match=r"not the path of a socket.*'/run/app.sock'"):
            ttrpc_uri(path)


def test_addresses_of_rsocket_are_converted() -> None:
    """A `Uri` of the same kind of place is accepted, as its text is."""
    assert ttrpc_uri(parse_uri("unix:///a")) == ttrpc_uri("unix:///a")
    assert ttrpc_uri(parse_uri("tcp://h:1")) == ttrpc_uri("tcp://h:1")
    with pytest.raises(ValueError, match="'ws' is not one of ttrpc"):
        ttrpc_uri(parse_uri("ws://h:1/"))
    with pytest.raises(TypeError, match="must be a str or a Uri, not int"):
        ttrpc_uri(3)  # type: ignore[arg-type]  # a descriptor is not an address


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no scheme"),
        ("run/app.sock", "no scheme"),
        ("localhost:1024", "no scheme"),
        ("unix:/run/app.sock", "no scheme"),
        ("ttrpc://h:1", "'ttrpc' is not one of ttrpc.unix, ttrpc.fd, ttrpc.tcp"),
        ("tls://h:1", "'tls' is not one of"),
        ("unix://run/app.sock", "absolute"),
        ("unix://@", "no name behind the @"),
        ("unix:///a%00b", "NUL"),
        ("unix://@a?b", "%3F"),
        ("unix://@a#b", "fragment"),
        ("tcp://h", "no port"),
        ("vsock://3", "no port"),
        ("vsock://3:", "no port"),
        ("vsock://:1", "the cid '' is not a number"),
        ("vsock://x:1", "the cid 'x' is not a number"),
        ("vsock://-2:1", "the cid '-2' is not a number"),
        ("vsock://4294967296:1", "the cid '4294967296' is not a number"),
        ("vsock://3:4294967295", "the port '4294967295' is not a number"),
        ("vsock://3:-1", "the port '-1' is not a number"),
        ("vsock://3:1/path", "not cid:port"),
        ("vsock://\u0663:1", "the cid"),
        ("hvsock:///run/v.sock", "no port"),
        ("hvsock:///run:1/v.sock", "no port"),
        ("hvsock:///run/v.sock:", "the port '' is not a number"),
        ("hvsock:///run/v.sock:x", "the port 'x' is not a number"),
        ("hvsock:///run/v.sock?port=", "the port '' is not a number"),
        ("hvsock:///run/v.sock?prt=1", "the only query is"),
        ("hvsock://run/v.sock:1", "absolute"),
        ("hvsock://@v:1", "absolute"),
        ("hvsock://:1", "no path"),
        ("fd:", "not the number of a file descriptor"),
        ("fd:x", "not the number of a file descriptor"),
        ("fd://-1", "not the number of a file descriptor"),
        ("fd://2147483648", "not the number of a file descriptor"),
        ("fd:3/", "not the number of a file descriptor"),
    ],
)
def test_a_wrong_address_is_explained(text: str, why: str) -> None:
    """The error names the fault and gives an address of the right form."""
    with pytest.raises(ValueError, match=why) as caught:
        ttrpc_uri(text)
    shown = str(caught.value).rpartition("looks like ")[2].strip("'")
    assert ttrpc_uri(shown).scheme.startswith("ttrpc+")


@pytest.mark.parametrize("kind", ["tcp", "vsock", "fd"])
def test_a_password_in_a_wrong_address_is_not_shown(kind: str) -> None:
    """Errors are logged."""
    with pytest.raises(ValueError, match=r"a user or password is not allowed") as caught:
        ttrpc_uri(f"{kind}://me:secret@h:1")
    assert "secret" not in str(caught.value)


TEXTS = st.text(max_size=30)


@given(
    TEXTS
    | st.sampled_from(["unix://", "unix://@", "tcp://", "vsock://", "hvsock:///", "fd:", "/"])
    .flatmap(lambda scheme: TEXTS.map(scheme.__add__))
)  # fmt: skip
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    """A valid text is the same after printing and reading; others raise ValueError only."""
    try:
        uri = ttrpc_uri(text)
    except ValueError:
        return
    assert ttrpc_uri(str(uri)) == uri


@given(st.binary(min_size=1, max_size=30), st.integers(0, 2**32 - 2))
def test_any_name_of_a_socket_can_be_written(name: bytes, port: int) -> None:
    """Also bytes that are not UTF-8; a name of the abstract namespace may have a NUL."""
    # Bytes that are removed from a text may leave two escaped ones that are a character together.
    path = "/x" + os.fsdecode(name.replace(b"\0", b""))
    for uri in (
        Uri(scheme="ttrpc+unix", path=f"@{os.fsdecode(name)}"),
        Uri(scheme="ttrpc+unix", path=path),
        Uri(scheme="ttrpc+hvsock", path=path, port=port),
    ):
        assert ttrpc_uri(str(uri)) == uri


def test_the_kind_of_each_scheme() -> None:
    """`dial` and `listen_for` go by it."""
    kinds = {text.partition(":")[0].lower(): kind_of(uri) for text, uri in FORMS}
    assert kinds == {
        "unix": AddressKind.UNIX,
        "tcp": AddressKind.INTERNET,
        "vsock": AddressKind.VSOCK,
        "hvsock": AddressKind.HYBRID_VSOCK,
        "fd": AddressKind.DESCRIPTOR,
        "systemd": AddressKind.ACTIVATION,
    }
    assert ttrpc_uri("fd:3").authority == "3"
    assert ttrpc_uri("vsock://any:3").authority == "any:3"
