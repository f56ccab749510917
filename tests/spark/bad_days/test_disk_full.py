"""The disk of a collector is full, or its files cannot grow: agents wait, and nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from .agents import sent
from .arrived import assert_each_line_once, file_sink
from .programs import rsocket_trio, until
from .scene import lumberjack

pytestmark = pytest.mark.programs

COUNT = 20_000
PLAIN = ("--compression-level", "0")


def wait_trouble(collector):
    """Wait until the log of the collector says that it cannot write."""
    until(
        lambda: "cannot be written now" in collector.program.errors,
        "the collector says that it cannot write",
        details=lambda: collector.program.errors,
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prlimit is Linux's")
def test_files_cannot_grow(scene):
    """The kernel refuses to write; when it allows it again, the collector goes on by itself."""
    import resource

    collector, log = scene.collector(), scene.log("a", COUNT)
    before = resource.prlimit(collector.program.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(collector.program.process.pid, resource.RLIMIT_FSIZE, (2**20, before[1]))
    agent = scene.agent(log, collector, options=PLAIN)
    wait_trouble(collector)
    assert agent.program.process.poll() is None
    assert agent.registered() <= sum(map(len_of, log.lines[: collector.spool().head]))
    resource.prlimit(collector.program.process.pid, resource.RLIMIT_FSIZE, before)
    state = agent.done()
    assert state["events_resent"] == 0
    assert collector.spool().head == COUNT


def len_of(line):
    return len(line.encode()) + 1


@pytest.fixture
def small_disk(scene):
    """A gate, a directory, and a command that runs another one where the directory is a disk.

    The disk has forty megabytes. While the gate is shut, another file takes all but four of them.
    No privileges are needed where users may have namespaces; other processes do not see the disk.
    """
    where, gate = scene.directory / "disk", scene.gate("other-file")
    where.mkdir()
    mount = f"mount -t tmpfs -o size=40m none {where}"
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed (util-linux)")
    tried = subprocess.run([*inside, mount], capture_output=True, text=True, timeout=30)
    if tried.returncode:
        pytest.skip(f"a disk cannot be mounted here: {tried.stderr.strip()}")
    fill = f"head -c 36m /dev/zero > {where}/other"
    give_up = f"while [ -e {gate.path} ]; do sleep 0.05; done; rm {where}/other"
    return gate, where, [*inside, f'{mount} && {fill} && {{ ({give_up}) & }} && exec "$@"', "sh"]


@pytest.mark.bad_days
def test_no_space_is_left(scene, application, small_disk):
    """ENOSPC: nothing is acknowledged that is not stored, and nothing is lost.

    When there is space again, the collector and the agents go on by themselves.
    """
    gate, where, prefix = small_disk
    collector = scene.collector_of([*prefix, *rsocket_trio("collect", "--spool", f"{where}/spool")])
    log = scene.log("a", COUNT)
    agent = scene.agent(log, collector, options=PLAIN)
    wait_trouble(collector)
    assert agent.program.process.poll() is None
    assert agent.registered() < log.path.stat().st_size
    gate.open()
    state = agent.done()
    assert state["reconnects"] == 0
    application.start([lumberjack(collector)], scene.file_sink(), scene.checkpoint).done()
    assert_each_line_once(file_sink(scene.sink), sent(log))
