"""The README of the examples describes the examples."""

import shlex
import subprocess
import sys

import pytest


def test_every_example_is_in_the_readme(examples):
    text = (examples / "README.md").read_text()
    there = [path.name for path in examples.iterdir() if not path.name.startswith(("__", "."))]
    assert [name for name in there if name != "README.md" and f"`{name}" not in text] == []


def commands(examples):
    lines = (examples / "README.md").read_text().splitlines()
    return [line.strip() for line in lines if line.startswith("    rsocket-trio ")]


@pytest.mark.parametrize("number", range(3))
def test_the_commands_of_the_readme_work(examples, environment, telemetry, number):
    """The commands run here with free ports."""
    assert len(commands(examples)) == 3
    command = commands(examples)[number]
    command = command.replace("tcp://127.0.0.1:7878", telemetry["tcp"])
    command = command.replace("ws://127.0.0.1:7879/rsocket", telemetry["ws"])
    done = subprocess.run(
        [sys.executable, "-m", "rsocket_trio", *shlex.split(command)[1:]],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
