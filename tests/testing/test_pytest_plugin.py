from __future__ import annotations

import subprocess
import sys
import textwrap

from tests.programs import environment

SUITE = """
    from rsocket_trio.frames import PayloadFrame, RequestResponseFrame
    from rsocket_trio.payload import Payload
    from rsocket_trio.testing.peer import KnownAnswers

    async def test_a_pair(rsocket_pair):
        async with rsocket_pair(KnownAnswers()) as requester:
            assert await requester.request_response(Payload(b"hello")) == Payload(b"hello")

    async def test_a_scripted_client(frame_peer_client):
        async with frame_peer_client(KnownAnswers()) as peer:
            await peer.send(RequestResponseFrame(1, data=b"hello"))
            assert (await peer.receive(PayloadFrame)).data == b"hello"

    async def test_a_scripted_server(frame_peer_server):
        async with frame_peer_server() as (peer, requester):
            await requester.fire_and_forget(Payload(b"hello"))
            assert (await peer.receive()).data == b"hello"
"""


def test_a_users_suite_gets_the_fixtures(tmp_path):
    """A suite that registers the plugin can use each of its fixtures."""
    (tmp_path / "conftest.py").write_text(
        'pytest_plugins = ["rsocket_trio.testing.pytest_plugin"]\n'
    )
    (tmp_path / "test_suite.py").write_text(textwrap.dedent(SUITE))
    (tmp_path / "pytest.ini").write_text("[pytest]\ntrio_mode = true\nfilterwarnings = error\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr
