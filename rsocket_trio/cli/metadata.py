"""Metadata from the command line: entries, authentication and a trace."""

from __future__ import annotations

import os
import re
import secrets
import sys
from typing import TYPE_CHECKING, Final

from rsocket_trio import (
    BearerAuthentication,
    Metadata,
    Sampling,
    SimpleAuthentication,
    ZipkinTrace,
)

from .exits import USAGE, Failure
from .payloads import read_bytes, read_value

if TYPE_CHECKING:
    import argparse

__all__ = ["read_bearer", "read_secret", "read_simple", "request_metadata", "setup_metadata"]

_ENTRY: Final = re.compile(r"(?P<mime>[\w.+-]+/[\w.+-]+)=(?P<value>.*)", re.DOTALL)
"""A MIME type (RFC 2045, without parameters), ``=`` and a value."""


def request_metadata(args: argparse.Namespace) -> tuple[Metadata | None, bytes | None]:
    """Return the metadata of ``--metadata``, ``--tag`` and ``--trace``: entries, and raw bytes.

    Raises:
        Failure: A value cannot be read, more than one value is not MIME=VALUE, or there are tags
            without a route.
    """
    if args.tags and args.route is None:
        raise Failure("--tag needs --route", USAGE)
    entries: list[tuple[str | int, bytes]] = []
    raw: bytes | None = None
    for argument in args.metadata:
        entry = _ENTRY.fullmatch(argument)
        if entry is not None:
            entries.append((entry["mime"], read_bytes(entry["value"])))
        elif raw is not None:
            text = (
                f"--metadata: only MIME=VALUE may be repeated; {argument!r} is a second raw value"
            )
            raise Failure(text, USAGE)
        else:
            raw = read_bytes(argument)
    trace = _new_trace() if args.trace else None
    if trace is None and not entries and not args.tags:
        return None, raw
    return Metadata(tags=args.tags, trace=trace, extra=entries), raw


def setup_metadata(args: argparse.Namespace) -> Metadata | None:
    """Return the authentication that goes with SETUP, or ``None``.

    Raises:
        Failure: A secret cannot be read, or is not a user name and a password.
    """
    if args.auth_bearer is not None:
        return Metadata(auth=read_bearer(args.auth_bearer))
    if args.auth_simple is not None:
        return Metadata(auth=read_simple(args.auth_simple))
    return None


def read_bearer(argument: str, option: str = "--auth-bearer") -> BearerAuthentication:
    """Return the token that an option names.

    Raises:
        Failure: It cannot be read.
    """
    return BearerAuthentication(read_secret(argument, option))


def read_simple(argument: str, option: str = "--auth-simple") -> SimpleAuthentication:
    """Return the user name and the password that an option names.

    Raises:
        Failure: They cannot be read, or there is no colon.
    """
    username, colon, password = read_secret(argument, option).partition(":")
    if not colon:
        raise Failure(f"{option}: the value must be USER:PASSWORD; it has no ':'", USAGE)
    return SimpleAuthentication(username, password)


def read_secret(argument: str, option: str) -> str:
    """Return the secret that an option names, without line ends after it.

    Args:
        argument: ``env:NAME`` for an environment variable, ``@FILE`` for a file, ``-`` for
            standard input, else the secret itself.
        option: The option, for messages. Messages never contain the secret.

    Raises:
        Failure: There is no such variable or file, or its content is not UTF-8.
    """
    if argument.startswith("env:"):
        name = argument.removeprefix("env:")
        if name not in os.environ:
            raise Failure(f"{option}: there is no environment variable {name!r}", USAGE)
        data = os.fsencode(os.environ[name])
    else:
        data = read_value(argument)
    try:
        return data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise Failure(f"{option}: the value is not UTF-8", USAGE) from None


def _new_trace() -> ZipkinTrace:
    trace_id = secrets.token_bytes(16)
    print(f"trace {trace_id.hex()}", file=sys.stderr)
    return ZipkinTrace(sampling=Sampling.SAMPLE, trace_id=trace_id, span_id=secrets.token_bytes(8))
