"""The peers with each other: if these fail, the fault is not in this package."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.interop

PAIRS = [
    ("ttrpc (Go)", "ttrpc (Go)"),
    ("ttrpc (Rust)", "ttrpc (Rust)"),
    ("ttrpc (Rust)", "ttrpc (Go)"),
    ("ttrpc (Go)", "ttrpc (Rust)"),
]


@pytest.mark.parametrize("pair", PAIRS, ids=" to ".join)
async def test_they_understand_each_other(pair, peers, installed, address):
    """Answers, an error and a stream of the server arrive."""
    installed.require(*pair)
    client, server = pair
    async with (
        peers.serving(server, address) as there,
        peers.calling(client, there.uri, ["echo", "error", "divide_stream"]) as here,
    ):
        assert (await here.seen())["answers"] == [{"seq": 2, "msg": "hi"}]
        assert (await here.seen())["error"] == "plain error"
        assert (await here.seen())["answers"] == [{"add": 3}] * 4


async def test_a_client_in_go_and_a_server_in_rust_disagree_about_streams(
    peers, installed, address
):
    """The server sees a first message that was not sent, so each sum has a part too many.

    Go's client sets no flag for a request without a payload, and Rust's server goes by that flag.
    Our client sets it, and our server does not go by it.
    """
    installed.require("ttrpc (Go)", "ttrpc (Rust)")
    async with (
        peers.serving("ttrpc (Rust)", address) as there,
        peers.calling("ttrpc (Go)", there.uri, ["sum_stream"]) as here,
    ):
        assert (await here.seen())["answers"] == [{"sum": 4950, "num": 101}]
