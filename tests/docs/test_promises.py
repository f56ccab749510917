"""What the pages on logs promise: their numbers are those of the code, and their tests exist."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path

import pytest

from rsocket_trio.cli.grammar import build_parser
from rsocket_trio.collector import CollectorClient, CollectorLimits, IngestConfig, collect
from rsocket_trio.logfiles.identity import HEAD_SIZE
from rsocket_trio.logfiles.open_files import RESERVE
from rsocket_trio.lumberjack import LumberjackHandler, ship_from
from rsocket_trio.lumberjack.log_handler.drops import INTERVAL
from rsocket_trio.spool import SpoolConfig, open_spool
from rsocket_trio.spool.batch import ROW_COST

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs"

SHIP = build_parser().parse_args(["lumberjack", "ship", "x", "--to", "lumberjack://h"])
COLLECT = build_parser().parse_args(["collect", "--spool", "x", "--listen", "lumberjack://h"])
HANDLER = inspect.signature(LumberjackHandler).parameters
SHIP_FROM = inspect.signature(ship_from).parameters
LIMITS, INGEST, SPOOL = CollectorLimits(), IngestConfig(), SpoolConfig()
RETRY = inspect.signature(collect).parameters["retry"].default
PATIENCE = inspect.signature(CollectorClient.read).parameters["patience"].default
KIB, MIB = 2**10, 2**20

NUMBERS: dict[str, list[str]] = {
    "lumberjack-ship": [
        f"Every `--poll` seconds ({SHIP.poll:g})",
        f"has not grown for `--close-after` seconds ({SHIP.close_after:g})",
        f"for `--grace` seconds at most\n({SHIP.grace:g})",
        f"by its first {HEAD_SIZE} bytes",
        f"`--multiline-max-lines` ({SHIP.multiline_max_lines})",
        f"for `--multiline-timeout` seconds ({SHIP.multiline_timeout:g})",
        f"`--max-line` ({SHIP.max_line // MIB}M)",
        (
            f"`--window` ({SHIP.window}), `--compression-level` ({SHIP.compression_level}) and"
            f" `--lumberjack-version` ({SHIP.lumberjack_version})"
        ),
        f"{RESERVE} descriptors are left",
    ],
    "lumberjack-logging": [
        f"At most `max_records` ({HANDLER['max_records'].default}) records wait",
        f"`max_size` ({HANDLER['max_size'].default // MIB} MiB)",
        f"`max_event_size` ({HANDLER['max_event_size'].default // MIB} MiB)",
        f"for `block_timeout` ({HANDLER['block_timeout'].default:g} s) at most",
        f"for `close_timeout` ({HANDLER['close_timeout'].default:g} s) at most",
        f"every {INTERVAL:g} seconds",
    ],
    "spool": [
        "at most `max_size` bytes, a gibibyte by default",
        f"At most `max_in_flight` ({SHIP_FROM['max_in_flight'].default}) batches are sent",
        f"counts {ROW_COST} bytes more",
        f"`spool.reserve`: {SPOOL.reserve_size // MIB} MiB",
        f"{4 * SPOOL.checkpoint_size // MIB} MiB for the log",
        f"as much again and {SPOOL.reserve_size // MIB} MiB for the reserve",
    ],
    "collector": [
        f"`--grace` limits the time, {COLLECT.grace:g} seconds by default",
        f"after {RETRY.initial_delay:g} s, then after longer waits, up to {RETRY.max_delay:g} s",
        f"for {PATIENCE:g} seconds (`patience`)",
        f"`CollectorLimits.max_reads` | {LIMITS.max_reads} ranges",
        f"for {LIMITS.stall_time:g} s (`stall_time`)",
        f"`CollectorLimits.max_reads_per_connection` | {LIMITS.max_reads_per_connection} |",
        (
            f"| {LIMITS.max_read_memory // MIB} MiB and"
            f" {LIMITS.max_read_memory_per_connection // MIB} MiB of batches"
        ),
        f"waits for {LIMITS.max_read_wait:g} s (`max_read_wait`)",
        f"`CollectorLimits.min_read_rate` | {LIMITS.min_read_rate / KIB:g} KiB/s",
        f"| {LIMITS.max_consumers}, {LIMITS.max_consumers_per_connection} |",
        (
            f"| {LIMITS.max_instances}, {LIMITS.max_instances_per_consumer},"
            f" {LIMITS.max_instances_per_connection} |"
        ),
        (
            f"| {INGEST.max_pending_size // MIB} MiB of a connection,"
            f" {INGEST.max_all_pending_size // MIB} MiB |"
        ),
        f"`IngestConfig.max_pending_connections` | {INGEST.max_pending_connections} |",
        f"`IngestConfig.max_channels_per_connection` | {INGEST.max_channels_per_connection} |",
        f"| {INGEST.max_granted_events} items, {INGEST.max_granted_size // MIB} MiB |",
        f"The {SPOOL.max_read_threads} threads that read from the disk",
    ],
}


def test_the_default_size_of_a_spool() -> None:
    """The page says it in a word."""
    assert inspect.signature(open_spool).parameters["max_size"].default == 2**30


@pytest.mark.parametrize(
    ("page", "text"), [(page, text) for page, texts in NUMBERS.items() for text in texts]
)
def test_numbers(page: str, text: str) -> None:
    """A default that changes, changes the page."""
    found = (PAGES / "howto" / f"{page}.md").read_text()
    assert " ".join(text.split()) in " ".join(found.split())


_NAMED = re.compile(r"`((?:tests/[\w/]*)?test_\w+\.py)(?:::(\w+))?`")


@cache
def _files() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        found.setdefault(path.name, []).append(path)
    return found


def test_named_tests_exist() -> None:
    """A page that names the test of a promise names one that there is."""
    missing = []
    for page in PAGES.rglob("*.md"):
        for where, name in _NAMED.findall(page.read_text()):
            if not name and "/" not in where:  # may be a file of the reader
                continue
            paths = [ROOT / where] if "/" in where else _files().get(where, [])
            if not any(
                path.exists() and (not name or f"def {name}(" in path.read_text()) for path in paths
            ):
                missing.append(f"{page.name}: {where}::{name}")
    assert not missing
