"""``routes``: print what a router answers, of a target or of a server that tells it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

import attrs

from rsocket_trio import Caller, CodecError, Introspection, Invalid, RouteDescription
from rsocket_trio.private_files import open_private

from .client import run_client
from .exits import DONE, LOCAL_IO, PEER_ERROR, Failure
from .logs import log_to_stderr
from .output import json_line
from .standard_streams import print_bytes
from .target import load_object, router_in

if TYPE_CHECKING:
    import argparse

    from rsocket_trio import Requester, TypeDescription

__all__ = ["run"]

MAX_ROUTES: Final = 10_000
"""Descriptions that are taken of a server; they are sorted before they are printed."""


def run(args: argparse.Namespace) -> int:
    """Print a line for each handler, sorted by route, or write them to a page.

    Raises:
        Failure: The target cannot be loaded or is no Router; the server does not tell; or the page
            cannot be written.
    """
    if "://" not in args.uri:
        log_to_stderr(args)
        _show(load_object(args.uri, router_in).describe(), args)
        return DONE

    async def ask(requester: Requester) -> int:
        asked = Caller(requester).of(Introspection, prefix=args.prefix)
        found: list[RouteDescription] = []
        try:
            async with asked.describe() as descriptions:
                async for each in descriptions:
                    found.append(each)
                    if len(found) > MAX_ROUTES:
                        raise Failure(f"the peer tells more than {MAX_ROUTES} routes", PEER_ERROR)
        except CodecError as error:
            raise Failure(
                f"the answer of the peer is no description: {error}", PEER_ERROR
            ) from error
        except Invalid as error:
            raise Failure(
                f"the peer answered INVALID: {error.message}: a server tells its routes if its"
                f" router includes router.introspection(...) as {args.prefix!r} (--prefix)",
                PEER_ERROR,
            ) from error
        _show(found, args)
        return DONE

    return run_client(args, ask)


def _show(described: Iterable[RouteDescription], args: argparse.Namespace) -> None:
    routes = sorted(described, key=lambda each: (each.route or "", each.interaction))
    if args.html is not None:
        try:
            file = open_private(args.html, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with os.fdopen(file, "w", encoding="utf-8") as page:
                page.write(_page(routes))
        except OSError as error:
            raise Failure(f"--html {args.html}: {error.strerror}", LOCAL_IO) from error
    elif args.json:
        for each in routes:
            print_bytes(json_line(attrs.asdict(each)))
    else:
        rows = [(each.route or "-", each.interaction, _call(each)) for each in routes]
        widths = [max(map(len, column), default=0) for column in zip(*rows, strict=True)]
        for route, interaction, call in rows:
            line = f"{route:<{widths[0]}}  {interaction:<{widths[1]}}  {call}\n"
            print_bytes(" ".join(line.splitlines()).encode(errors="backslashreplace") + b"\n")


def _call(route: RouteDescription) -> str:
    given = ", ".join(
        f"{each.name}: {each.type.name}" + ("" if each.required else " = ...")
        for each in route.arguments
    )
    return f"({given})" + ("" if route.result is None else f" -> {route.result.name}")


_STYLE: Final = """\
body { font: 16px/1.5 sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
section { border-top: 1px solid #888; }
pre { overflow: auto; white-space: pre-wrap; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee; } }
"""


def _page(routes: Sequence[RouteDescription]) -> str:
    """Return a page that needs nothing else and runs nothing; all texts are escaped."""
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>Routes</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n<h1>Routes</h1>\n"
    )
    parts = [head]
    for route in routes:
        parts.append(f"<section>\n<h2><code>{_text(route.route or '-')}</code></h2>\n")
        parts.append(f"<p>{_text(route.interaction)} <code>{_text(_call(route))}</code></p>\n")
        if route.doc:
            parts.append(f"<pre>{_text(route.doc)}</pre>\n")
        for title, names in (("Middleware", route.middleware), ("Guards", route.guards)):
            if names:
                parts.append(f"<p>{title}: <code>{_text(', '.join(names))}</code></p>\n")
        parts += [_schema(f"{each.name} ({each.source})", each.type) for each in route.arguments]
        if route.result is not None:
            parts.append(_schema("result", route.result))
        parts.append(f"<p>{_text(route.handler)}</p>\n</section>\n")
    return "".join(parts) + "</body>\n</html>\n"


def _schema(title: str, described: TypeDescription) -> str:
    if described.schema is None:
        return ""
    text = json.dumps(described.schema, indent=2, ensure_ascii=False)
    summary = _text(f"{title}: {described.name}")
    return f"<details><summary>{summary}</summary><pre>{_text(text)}</pre></details>\n"


def _text(text: str) -> str:
    return escape(text.encode(errors="backslashreplace").decode())
