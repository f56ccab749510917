"""``conformance``: test an implementation of rsio, and print a line for each rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import attrs
import trio

from rsocket_trio.escapes import escaped
from rsocket_trio.testing.rsio_conformance import (
    RULES,
    SOURCES,
    Accepted,
    Dialled,
    Failed,
    Result,
    Rule,
    Subject,
    Trial,
    run_rules,
)
from rsocket_trio.uri import shown

from .certificates import client_context
from .exits import DONE, PEER_ERROR, UNREACHABLE, USAGE, Failure
from .interrupt import Interruption, interruptible
from .logs import log_to_stderr
from .output import json_line
from .standard_streams import print_bytes

if TYPE_CHECKING:
    import argparse
    import ssl

__all__ = ["run"]

_Report: TypeAlias = Callable[[Result], None]
_MakeTrial: TypeAlias = Callable[[Subject], Trial]


def run(args: argparse.Namespace) -> int:
    """Run the rules, or list them.

    Returns:
        0 if no rule failed, 1 if one did, or 128 plus the number of the signal that stopped it.

    Raises:
        Failure: A rule does not exist, or there is no connection at all.
        BrokenPipeError: The reader of the output has closed the pipe.
    """
    log_to_stderr(args)
    rules = _chosen(args.only)
    if args.list:
        for rule in rules:
            print_bytes(_listed(rule, as_json=args.json))
        return DONE
    encrypted = args.uri is not None and urlsplit(args.uri).scheme == "rsios"
    context = client_context(args, "rsios://", encrypted=encrypted)
    return trio.run(interruptible, partial(_test, args, rules, context))


def _chosen(only: list[str]) -> list[Rule]:
    wanted = {name.strip().upper() for each in only for name in each.split(",") if name.strip()}
    if unknown := sorted(wanted - set(RULES)):
        text = f"there is no rule {unknown[0]!r}: they are RSIO-01 to RSIO-58 and B01 to B22"
        raise Failure(text, USAGE)
    return [rule for name, rule in RULES.items() if not wanted or name in wanted]


async def _test(
    args: argparse.Namespace,
    rules: list[Rule],
    context: ssl.SSLContext | None,
    stop: Interruption,
) -> int:
    counts: Counter[str] = Counter()

    def report(result: Result) -> None:
        counts[result.verdict] += 1
        print_bytes(_line(result, as_json=args.json))

    make_trial = partial(Trial, patience=args.patience)
    with stop.work():
        if args.listen is None:
            await _test_server(args, rules, context, report, make_trial)
        else:
            await _test_client(args, rules, report, make_trial)
        print_bytes(_summary(counts, as_json=args.json))
    return PEER_ERROR if counts["failed"] else DONE


async def _test_server(
    args: argparse.Namespace,
    rules: list[Rule],
    context: ssl.SSLContext | None,
    report: _Report,
    make_trial: _MakeTrial,
) -> None:
    parts = urlsplit(args.uri)
    server = Dialled(parts.hostname or "", parts.port or 0, context, args.pid)
    try:
        await trio.aclose_forcefully(await server.connect())
    except Failed as failed:
        raise Failure(str(failed), UNREACHABLE) from failed
    await run_rules(rules, server, report, make_trial=make_trial)


async def _test_client(
    args: argparse.Namespace, rules: list[Rule], report: _Report, make_trial: _MakeTrial
) -> None:
    parts = urlsplit(args.listen)
    try:
        listeners = await trio.open_tcp_listeners(parts.port or 0, host=parts.hostname)
    except OSError as error:
        raise Failure(f"cannot listen on {shown(args.listen)}: {error}", UNREACHABLE) from error
    for each in listeners[1:]:
        await each.aclose()
    async with listeners[0] as listener:
        host, port = listener.socket.getsockname()[:2]
        name = f"[{host}]" if ":" in host else host
        print_bytes(f"listening on rsio://{name}:{port}\n".encode())
        await run_rules(rules, Accepted(listener, args.pid), report, make_trial=make_trial)


def _line(result: Result, *, as_json: bool) -> bytes:
    rule = result.rule
    if as_json:
        fields = {
            "rule": rule.id,
            "title": rule.title,
            "source": rule.source,
            "verdict": result.verdict,
            "reason": result.reason or None,
            "seconds": round(result.seconds, 3),
        }
        return json_line(fields)
    text = f"{result.verdict:<7}  {rule.id:<7}  {rule.title}\n"
    if result.reason:
        # Texts of the peer are in it, which must not control the terminal.
        text += f"         {escaped(result.reason)}\n"
    return text.encode()


def _summary(counts: Counter[str], *, as_json: bool) -> bytes:
    numbers = {verdict: counts[verdict] for verdict in ("passed", "failed", "skipped")}
    if as_json:
        return json_line({"summary": numbers})
    return (", ".join(f"{number} {verdict}" for verdict, number in numbers.items()) + "\n").encode()


def _listed(rule: Rule, *, as_json: bool) -> bytes:
    if as_json:
        fields = attrs.asdict(rule, filter=lambda field, _: field.name not in {"check", "slow"})
        return json_line(fields)
    needs = f" [{' '.join(rule.needs)}]" if rule.needs else ""
    return f"{rule.id:<7}  {rule.title}{needs} ({SOURCES[rule.source]})\n".encode()
