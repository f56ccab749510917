"""docs/howto/command-line has the options of every command, once."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from rsocket_trio.cli.grammar import build_parser, subcommands

PAGES = Path(__file__).parents[2] / "docs/howto/command-line"


def names(parser: argparse.ArgumentParser, before: str = "") -> list[str]:
    """Return the commands of a parser, with the names of their groups."""
    found: list[str] = []
    for name, command in subcommands(parser).items():
        found += names(command, f"{before}{name} ") or [f"{before}{name}"]
    return found


def test_each_command_has_its_table_of_options() -> None:
    """A command without a page is found by nobody; Sphinx fills the table from the parser."""
    pages = "".join(page.read_text() for page in PAGES.glob("*.md"))
    assert sorted(re.findall(r"^```\{options\} (.+)$", pages, re.MULTILINE)) == sorted(
        names(build_parser())
    )
