"""Load the certificates that the options name; errors say which file is wrong."""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rsocket_trio import ReloadableContext

from .exits import USAGE, Failure

if TYPE_CHECKING:
    import argparse

__all__ = [
    "asks_certificates",
    "client_context",
    "load_certificate",
    "server_context",
    "trusting",
]

_CLIENT: Final = ("ca", "cert", "key", "insecure", "tls_server_name")


def client_context(
    args: argparse.Namespace, schemes: str, *, encrypted: bool
) -> ReloadableContext | None:
    """Return the TLS context of a client, as the options of `add_client_tls` have it.

    When it loads the files again, it raises `Failure` as here.

    Args:
        args: The parsed arguments.
        schemes: The schemes of addresses with TLS, for an error.
        encrypted: Whether an address has TLS. If not, there is no context.

    Raises:
        Failure: The options do not go together, or a file cannot be used.
    """
    wanted = [name.replace("_", "-") for name in _CLIENT if getattr(args, name)]
    if not encrypted:
        if wanted:
            raise Failure(f"--{wanted[0]} works only with {schemes} addresses", USAGE)
        return None
    if args.key is not None and args.cert is None:
        raise Failure("--key needs --cert", USAGE)
    load = partial(_load_client, args)
    if args.tls_server_name is None:
        return ReloadableContext(load)
    context = _Named(load)
    context.server_name = args.tls_server_name
    return context


class _Named(ReloadableContext):
    """Asks each server for one name, and checks its certificate for that, not for the address."""

    server_name: str

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """See `ssl.SSLContext.wrap_bio`."""
        return super().wrap_bio(*args, **options | {"server_hostname": self.server_name})


def _load_client(args: argparse.Namespace) -> ssl.SSLContext:
    context = trusting(args.ca)
    if args.cert is not None:
        load_certificate(context, args.cert, args.key)
    if args.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def server_context(
    args: argparse.Namespace, encrypted: list[str], schemes: str
) -> ReloadableContext | None:
    """Return the TLS context of a server, as the options of `add_server_tls` have it.

    When it loads the files again, it raises `Failure` as here.

    Args:
        args: The parsed arguments.
        encrypted: The addresses with TLS. If there are none, there is no context.
        schemes: The schemes of addresses with TLS, for an error.

    Raises:
        Failure: The options do not go together, or a file cannot be used.
    """
    given = [
        f"--{name}"
        for name in ("key", "ca", "client-cert")
        if getattr(args, name.replace("-", "_")) is not None
    ]
    if args.cert is None:
        if encrypted or given:
            raise Failure(f"{encrypted[0] if encrypted else given[0]} needs --cert", USAGE)
        return None
    if not encrypted:
        raise Failure(f"--cert works only with {schemes} addresses", USAGE)
    if args.client_cert is not None and args.ca is None:
        raise Failure("--client-cert needs --ca", USAGE)
    return ReloadableContext(partial(_load_server, args))


def asks_certificates(args: argparse.Namespace) -> bool:
    """Whether peers of a server with these options need a certificate, at addresses with TLS."""
    return args.ca is not None and args.client_cert != "optional"


def _load_server(args: argparse.Namespace) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_certificate(context, args.cert, args.key)
    if args.ca is not None:
        _load_authority(context, args.ca)
        needed = asks_certificates(args)
        context.verify_mode = ssl.CERT_REQUIRED if needed else ssl.CERT_OPTIONAL
    return context


def trusting(ca: str | None) -> ssl.SSLContext:
    """Return a context that trusts the certificates in ``ca``, or the system's if it is ``None``.

    Raises:
        Failure: The file cannot be read, or contains no certificate.
    """
    if ca is not None:
        _check_readable(ca)
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise _no_authority(ca) from error


def _load_authority(context: ssl.SSLContext, ca: str) -> None:
    """Make a context trust the certificates in ``ca``, in addition to those it trusts already.

    Raises:
        Failure: The file cannot be read, or contains no certificate.
    """
    _check_readable(ca)
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as error:
        raise _no_authority(ca) from error


def load_certificate(context: ssl.SSLContext, cert: str, key: str | None) -> None:
    """Load the certificate in ``cert``. Its private key is in ``key``, or in ``cert`` too.

    Raises:
        Failure: A file cannot be read or has the wrong content, or key and certificate differ.
    """
    for name in (cert, key):
        if name is not None:
            _check_readable(name)
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as error:
        # The second: there is no certificate of the kind of the key, e.g. RSA.
        if error.reason in {"KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}:
            text = f"cannot use {cert!r}: the key in {key or cert!r} belongs to another certificate"
        elif key is None:
            text = f"cannot use {cert!r}: it must contain a certificate and its key, in PEM format"
        else:
            text = f"cannot use {cert!r} with the key {key!r}: one of them is not in PEM format"
        raise Failure(text, USAGE) from error


def _no_authority(ca: str | None) -> Failure:
    return Failure(f"cannot use {ca!r}: it contains no certificate in PEM format", USAGE)


def _check_readable(name: str) -> None:
    try:
        with Path(name).open("rb"):
            pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Failure(f"cannot read {name!r}: {reason}", USAGE) from error
