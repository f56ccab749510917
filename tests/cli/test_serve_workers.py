"""``serve --workers``: the parent as a program, and what is done to it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import trustme

from tests.programs import environment
from tests.waiting import wait_until

pytestmark = pytest.mark.programs

StartCli = Callable[..., "subprocess.Popen[bytes]"]
Cli = Callable[..., "subprocess.CompletedProcess[bytes]"]

APP = """
import os
import resource
import trio
from contextlib import asynccontextmanager
from rsocket_trio import Router
from rsocket_trio.workers import this_worker

@asynccontextmanager
async def lifespan():
    with open(f"lives-{os.getpid()}", "w") as file:
        file.write(f"{this_worker().number}")
    yield

app = Router(lifespan=lifespan)

@app.request_response("who")
async def who() -> int:
    return os.getpid()

@app.request_response("block")
async def block() -> int:
    open("blocks", "w").close()
    while True:
        pass
"""


class Serving:
    """A parent, its address and its workers."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self.process = process
        self._directory = directory
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert line.startswith("listening on "), line
        self.uri = line.removeprefix("listening on ").rstrip("\n")
        host, _, port = self.uri.rpartition("//")[2].rpartition(":")
        self.place = host, int(port)

    def workers(self) -> dict[int, int]:
        """The numbers of the workers that have been there, by process."""
        found = self._directory.glob("lives-*")
        return {int(each.name.partition("-")[2]): int(each.read_text() or 0) for each in found}

    def wait_log(self, text: str) -> str:
        assert self.process.stderr is not None
        while line := self.process.stderr.readline().decode():
            if text in line:
                return line
        raise AssertionError(f"the log has no {text!r}")


@pytest.fixture
def serve(start_cli: StartCli, tmp_path: Path) -> Callable[..., Serving]:
    (tmp_path / "app.py").write_text(APP)
    listen = ("serve", "app.py", "--listen", "tcp://127.0.0.1:0", "--grace", "2")
    return lambda *options, **settings: Serving(start_cli(*listen, *options, **settings), tmp_path)


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_generations_by_signal(serve: Callable[..., Serving], cli: Cli) -> None:
    """SIGHUP starts new workers, SIGUSR1 describes them, SIGTERM ends them; systemd knows."""
    server = serve("--workers", "2")
    first = server.workers()
    assert sorted(first.values()) == [1, 2]
    server.process.send_signal(signal.SIGHUP)
    server.wait_log("generation 2 serves")
    answer = cli("request", server.uri, "--route", "who")
    second = int(answer.stdout)
    assert second in server.workers()
    assert second not in first
    wait_until(lambda: not any(map(is_there, first)))
    server.process.send_signal(signal.SIGUSR1)
    server.wait_log("worker 1: generation 2")
    assert '"accepted": 1' in server.wait_log("all workers:")
    server.process.terminate()
    assert server.process.wait(timeout=30) == 0
    assert not any(map(is_there, server.workers()))


def test_a_generation_that_fails(serve: Callable[..., Serving], cli: Cli, tmp_path: Path) -> None:
    """The log says why, and the present one goes on."""
    server = serve("--workers", "1")
    (pid,) = server.workers()
    (tmp_path / "app.py").write_text("import nothing_of_this_name\n")
    server.process.send_signal(signal.SIGHUP)
    line = server.wait_log("SIGHUP: what was read before stays in use")
    assert "worker 1 (generation 2" in line
    assert "has not started: it ended with the status 2" in line
    assert int(cli("request", server.uri, "--route", "who").stdout) == pid


def test_a_first_start_that_fails(program: Cli, tmp_path: Path) -> None:
    """Its error is shown, and its status is that of the parent."""
    (tmp_path / "app.py").write_text("import nothing_of_this_name\n")
    done = program("serve", "app.py", "--listen", "tcp://127.0.0.1:0", "--workers", "2")
    assert done.returncode == 2
    assert b"cannot import 'app.py': ModuleNotFoundError" in done.stderr
    assert b"has not started: it ended with the status 2" in done.stderr


def test_resumption_that_cannot_find_its_worker(program: Cli, tmp_path: Path) -> None:
    """It is refused at the start, with the reason."""
    (tmp_path / "app.py").write_text(APP)
    trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(
        str(tmp_path / "cert.pem")
    )
    for listen in (("tls://127.0.0.1:0", "--cert", "cert.pem"), ("ws://127.0.0.1:0/x",)):
        done = program("serve", "app.py", "--workers", "1", "--resume", "60", "--listen", *listen)
        assert done.returncode != 0
        assert b"a client that resumes does not find the worker" in done.stderr


def test_a_parent_that_is_killed(serve: Callable[..., Serving]) -> None:
    """Its workers end."""
    server = serve("--workers", "2")
    pids = list(server.workers())
    assert all(map(is_there, pids))
    server.process.kill()
    wait_until(lambda: not any(map(is_there, pids)))


def test_a_blocked_worker_does_not_outlive_its_parent(
    start_cli: StartCli, serve: Callable[..., Serving], tmp_path: Path
) -> None:
    """It cannot stop gracefully, so it is killed when that would have to be over."""
    server = serve("--workers", "1", "--grace", "0")
    (pid,) = server.workers()
    start_cli("request", server.uri, "--route", "block")
    wait_until((tmp_path / "blocks").exists)
    server.process.kill()
    wait_until(lambda: not is_there(pid))


def test_a_parent_that_is_killed_at_the_start(start_cli: StartCli, tmp_path: Path) -> None:
    """Workers whose lifespan never begins learn of it as well."""
    hangs = APP.replace("    yield\n", "    await trio.sleep_forever()\n    yield\n")
    (tmp_path / "app.py").write_text(hangs)
    process = start_cli("serve", "app.py", "--listen", "tcp://127.0.0.1:0", "--workers", "1")
    wait_until(lambda: any(tmp_path.glob("lives-*")))
    (pid,) = (int(each.name.partition("-")[2]) for each in tmp_path.glob("lives-*"))
    assert is_there(pid)
    process.kill()
    wait_until(lambda: not is_there(pid))


def test_a_reload_that_comes_too_late(serve: Callable[..., Serving]) -> None:
    """While all stop, SIGHUP changes nothing: no open stream is cut, and the status is 0."""
    server = serve("--workers", "1")
    (pid,) = server.workers()
    os.kill(pid, signal.SIGSTOP)
    server.process.terminate()
    server.wait_log("stopping")
    server.process.send_signal(signal.SIGHUP)
    assert "the workers are being stopped" in server.wait_log("SIGHUP")
    os.kill(pid, signal.SIGCONT)
    assert server.process.wait(timeout=30) == 0


def test_a_parent_without_descriptors(start_cli: StartCli, tmp_path: Path) -> None:
    """It waits until it has some, and loses nobody; its log says so in few lines."""
    (tmp_path / "app.py").write_text(APP)
    command = [
        "bash",
        "-c",
        'ulimit -n 40; exec "$@"',
        "sh",
        sys.executable,
        "-m",
        "rsocket_trio",
        "serve",
        "app.py",
        "--listen",
        "tcp://127.0.0.1:0",
        "--workers",
        "1",
    ]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            server = Serving(process, tmp_path)
            held = [socket.create_connection(server.place) for _ in range(60)]
            server.wait_log("no file descriptor is left")
            for each in held:
                each.close()
            deadline = time.monotonic() + 60
            while True:
                done = subprocess.run(
                    [*command[4:7], "request", server.uri, "--route", "who"],
                    env=environment(),
                    capture_output=True,
                    timeout=60,
                    check=False,
                )
                if done.returncode == 0:
                    break
                assert time.monotonic() < deadline, done.stderr
            assert is_there(int(done.stdout))
        finally:
            process.kill()


def test_an_interrupted_parent(serve: Callable[..., Serving]) -> None:
    """A second signal ends all of them at once."""
    server = serve("--workers", "1")
    (pid,) = server.workers()
    os.kill(pid, signal.SIGSTOP)
    server.process.terminate()
    server.wait_log("stopping")
    server.process.terminate()
    assert server.process.wait(timeout=30) == 128 + signal.SIGTERM
    wait_until(lambda: not is_there(pid))


def test_probes_of_all_workers(start_cli: StartCli, cli: Cli, tmp_path: Path) -> None:
    """The parent answers: live, ready, and not ready while the workers serve for --stop-delay."""
    (tmp_path / "app.py").write_text(APP)
    options = ("--workers", "2", "--health", "http://127.0.0.1:0", "--stop-delay", "600")
    server = Serving(
        start_cli("serve", "app.py", "--listen", "tcp://127.0.0.1:0", *options), tmp_path
    )
    assert server.process.stdout is not None
    line = server.process.stdout.readline().decode()
    probes = line.removeprefix("answering probes at ").strip()

    def status(page: str) -> int:
        try:
            with urlopen(f"{probes}/{page}") as answer:
                return int(answer.status)
        except HTTPError as error:
            error.close()
            return error.code

    assert (status("live"), status("ready")) == (200, 200)
    server.process.terminate()
    wait_until(lambda: status("ready") == 503)
    assert status("live") == 200
    assert int(cli("request", server.uri, "--route", "who").stdout) in server.workers()
    server.process.terminate()
    assert server.process.wait(timeout=30) == 143
