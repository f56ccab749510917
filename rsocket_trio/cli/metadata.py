"""Metadata from the command line: entries, authentication, a trace."""

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
    ZipkinTracing,
)

from .exits import USAGE, Failure
from .payloads import read_metadata, read_value

if TYPE_CHECKING:
    import argparse

__all__ = ["read_secret", "request_metadata", "setup_metadata"]

_ENTRY: Final = re.compile(r"(?P<mime>[\w.+-]+/[\w.+-]+)=(?P<value>.*)", re.DOTALL)
"""A MIME type (RFC 2045, without parameters), ``=`` and a value."""


def request_metadata(args: argparse.Namespace) -> tuple[Metadata | None, bytes | None]:
    """What ``--metadata`` and ``--trace`` say: entries, and metadata as they are.

    Raises:
        Failure: A value cannot be read, or more than one is given that is no entry.
    """
    entries: list[tuple[str | int, bytes]] = []
    raw: bytes | None = None
    for argument in args.metadata:
        entry = _ENTRY.fullmatch(argument)
        if entry is not None:
            entries.append((entry["mime"], read_metadata(entry["value"]) or b""))
        elif raw is not None:
            raise Failure("only --metadata MIME=VALUE may be repeated", USAGE)
        else:
            raw = read_metadata(argument)
    trace = _new_trace() if args.trace else None
    if trace is None and not entries:
        return None, raw
    return Metadata(trace=trace, extra=entries), raw


def setup_metadata(args: argparse.Namespace) -> Metadata | None:
    """Who we are, if that is to be said.

    Raises:
        Failure: A secret cannot be read, or is no user name and password.
    """
    if args.auth_bearer is not None:
        return Metadata(auth=BearerAuthentication(read_secret(args.auth_bearer, "--auth-bearer")))
    if args.auth_simple is not None:
        username, colon, password = read_secret(args.auth_simple, "--auth-simple").partition(":")
        if not colon:
            raise Failure("--auth-simple: USER:PASSWORD is due, and there is no ':'", USAGE)
        return Metadata(auth=SimpleAuthentication(username, password))
    return None


def read_secret(argument: str, option: str) -> str:
    """What an option stands for, without the end of its line.

    Args:
        argument: ``env:NAME`` for the content of an environment variable, ``@FILE`` and ``-``
            as everywhere, else the secret itself.
        option: For messages, which show nothing of the secret.

    Raises:
        Failure: There is no such variable or file, or what is there is not UTF-8.
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
        raise Failure(f"{option}: not UTF-8", USAGE) from None


def _new_trace() -> ZipkinTracing:
    trace_id = secrets.token_bytes(16)
    print(f"trace {trace_id.hex()}", file=sys.stderr)
    return ZipkinTracing(
        sampling=Sampling.SAMPLE, trace_id=trace_id, span_id=secrets.token_bytes(8)
    )
