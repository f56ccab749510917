"""Certificates that the options name, loaded, with messages that say which file is wrong."""

from __future__ import annotations

import ssl
from pathlib import Path

from .exits import USAGE, Failure

__all__ = ["load_certificate", "trusting"]


def trusting(ca: str | None) -> ssl.SSLContext:
    """What a client needs to trust the certificates in the file ``ca``, or else the system's.

    Raises:
        Failure: The file cannot be read, or holds none.
    """
    if ca is not None:
        _check_readable(ca)
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise Failure(f"cannot use {ca!r}: it holds no certificate in PEM", USAGE) from error


def load_certificate(context: ssl.SSLContext, cert: str, key: str | None) -> None:
    """Present the certificate in the file ``cert``, whose key is in ``key`` or beside it.

    Raises:
        Failure: A file cannot be read or does not hold what it should, or they do not match.
    """
    for name in (cert, key):
        if name is not None:
            _check_readable(name)
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"cannot use {cert!r}: the key in {key or cert!r} belongs to another certificate"
        elif key is None:
            text = f"cannot use {cert!r}: a certificate and its key are needed, both in PEM"
        else:
            text = f"cannot use {cert!r} with the key {key!r}: one of them is not in PEM"
        raise Failure(text, USAGE) from error


def _check_readable(name: str) -> None:
    try:
        with Path(name).open("rb"):
            pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Failure(f"cannot read {name!r}: {reason}", USAGE) from error
