"""Certificates in options: which file is wrong, and how."""

import ssl
from pathlib import Path

import pytest
import trustme

from rsocket_trio.cli.certificates import load_certificate, trusting
from rsocket_trio.cli.exits import USAGE, Failure


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: certificates and keys of two names, and their authority."""
    monkeypatch.chdir(tmp_path)
    authority = trustme.CA()
    authority.cert_pem.write_to_path("ca.pem")
    for name in ("one", "two"):
        issued = authority.issue_cert(f"{name}.example")
        issued.cert_chain_pems[0].write_to_path(f"{name}.pem")
        issued.private_key_pem.write_to_path(f"{name}.key")
        issued.private_key_and_cert_chain_pem.write_to_path(f"{name}.both")
    rsa = authority.issue_cert("rsa.example", key_type=trustme.KeyType.RSA)
    rsa.private_key_pem.write_to_path("rsa.key")
    Path("text").write_text("no PEM\n")
    return tmp_path


@pytest.mark.parametrize(("cert", "key"), [("one.pem", "one.key"), ("two.both", None)])
def test_certificates_are_loaded(directory: Path, cert: str, key: str | None) -> None:
    """A certificate, with its key in the same file or in another; an authority, or the system's."""
    load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), cert, key)
    assert len(trusting("ca.pem").get_ca_certs()) == 1
    assert trusting(None).verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("cert", "key", "message"),
    [
        ("absent", None, "cannot read 'absent': No such file or directory"),
        ("one.pem", "absent", "cannot read 'absent': No such file or directory"),
        ("one\0", None, "cannot read 'one\\x00': embedded null byte"),
        (
            "one.pem",
            "two.key",
            "cannot use 'one.pem': the key in 'two.key' belongs to another certificate",
        ),
        (
            "one.pem",
            "rsa.key",
            "cannot use 'one.pem': the key in 'rsa.key' belongs to another certificate",
        ),
        (
            "one.pem",
            None,
            "cannot use 'one.pem': it must contain a certificate and its key, in PEM format",
        ),
        (
            "text",
            "one.key",
            "cannot use 'text' with the key 'one.key': one of them is not in PEM format",
        ),
    ],
)
def test_wrong_certificates(directory: Path, cert: str, key: str | None, message: str) -> None:
    """The message names the file and its fault."""
    with pytest.raises(Failure) as caught:
        load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), cert, key)
    assert (caught.value.message, caught.value.status) == (message, USAGE)


@pytest.mark.parametrize(
    ("ca", "message"),
    [
        ("absent", "cannot read 'absent': No such file or directory"),
        ("text", "cannot use 'text': it contains no certificate in PEM format"),
    ],
)
def test_wrong_authorities(directory: Path, ca: str, message: str) -> None:
    """The message names the file of authorities and its fault."""
    with pytest.raises(Failure) as caught:
        trusting(ca)
    assert (caught.value.message, caught.value.status) == (message, USAGE)
