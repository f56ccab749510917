"""Callables that promise "Checkpoint: always" are checkpoints, also if they need not wait.

A table: each public async callable that promises it, or at least a cancellation point, in the
states in which it need not wait. The rows are in ``checkpoints/``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import ssl
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme

import rsocket_trio
from tests.checkpoints.scene import ROWS, Row, Scene

for _path in sorted((Path(__file__).parent / "checkpoints").glob("rows_*.py")):
    importlib.import_module(f"tests.checkpoints.{_path.stem}")


ALWAYS = r"always\b|on (?:entering|leaving)|entering(?: and leaving)?, always"
AT_LEAST = r"[^.;]*a cancellation point|[^.]*; a cancellation point always"


def promises(words: str) -> Iterator[str]:
    """The names in ``rsocket_trio`` whose docstring promises this behind "Checkpoint:"."""
    for module in pkgutil.walk_packages(rsocket_trio.__path__, "rsocket_trio."):
        if module.name.endswith("__main__"):
            continue
        there = importlib.import_module(module.name)
        for name in getattr(there, "__all__", ()):
            thing = getattr(there, name)
            if getattr(thing, "__module__", None) != module.name:
                continue
            members = vars(thing).items() if inspect.isclass(thing) else ()
            for path, each in [
                (name, thing),
                *((f"{name}.{member}", value) for member, value in members if _public(member)),
            ]:
                abstract = getattr(each, "__isabstractmethod__", False)
                text = inspect.getdoc(each) if inspect.isfunction(each) and not abstract else None
                if text and re.search(rf"Checkpoint:\s+(?:{words})", text):
                    yield f"{module.name.removeprefix('rsocket_trio.')}.{path}"


def _public(member: str) -> bool:
    return not member.startswith("_") or member == "__anext__"


@pytest.fixture(scope="module")
def contexts():
    """TLS for both sides: a server called localhost, a client that trusts it."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_it_is_a_checkpoint(row: Row, tmp_path, contexts):
    """It lets other tasks run and can be cancelled; or at least the latter."""
    async with trio.open_nursery() as nursery:
        async with AsyncExitStack() as stack:
            call = await row.prepare(Scene(nursery, stack, tmp_path, *contexts))
            await trio.testing.wait_all_tasks_blocked()
            if row.only_cancelled:
                with trio.move_on_after(0) as scope:
                    await call()
                assert scope.cancelled_caught
            else:
                with trio.testing.assert_checkpoints():
                    await call()
        nursery.cancel_scope.cancel(reason="the test is over")


def test_the_table_is_complete():
    """Every promise has its row, and every row has its promise."""
    assert {row.name for row in ROWS if not row.only_cancelled} == set(promises(ALWAYS))
    assert {row.name for row in ROWS if row.only_cancelled} == set(promises(AT_LEAST))
