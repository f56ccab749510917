"""``completion``: what it prints completes commands, options, choices and names of files."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("shtab")

Cli = Callable[..., subprocess.CompletedProcess[bytes]]

COMPLETE = """
source {script}
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
COMP_LINE="${{COMP_WORDS[*]}}" COMP_POINT=${{#COMP_LINE}}
$(complete -p rsocket-trio | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def completed(cli: Cli, tmp_path: Path) -> Callable[..., list[str]]:
    """Return what bash offers for the last of some words."""
    (tmp_path / "script").write_bytes(cli("completion", "bash").stdout)
    (tmp_path / "answer.json").touch()

    def complete(*words: str) -> list[str]:
        quoted = shlex.join(["rsocket-trio", *words])
        program = COMPLETE.format(script="./script", words=quoted)
        done = subprocess.run(
            ["bash", "--norc", "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return [each for each in done.stdout.splitlines() if each]

    return complete


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["requ"], ["request"]),
        (["ttrpc", "desc"], ["describe"]),
        (["request", "--rout"], ["--route"]),
        (["serve", "--wiretap-f"], ["--wiretap-file"]),
        (["decode", "--protocol", "lum"], ["lumberjack"]),
        (["request", "tcp://a:1", "--wiretap-file", "ans"], ["answer.json"]),
        (["nothing", "--z"], []),
    ],
)
def test_bash_completes(completed: Callable[..., list[str]], words: list[str], found: list[str]):
    """Commands, those of groups, options, their choices, and files."""
    assert completed(*words) == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell(cli: Cli, shell: str):
    """The text names all commands; what else it is, its shell says."""
    done = cli("completion", shell)
    assert (done.returncode, done.stderr) == (0, b"")
    assert all(name in done.stdout for name in (b"request", b"lumberjack", b"wiretap-file"))


def test_without_its_package(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "shtab", None)
    done = cli("completion", "bash")
    assert done.returncode == 2
    assert b"pip install 'rsocket-trio[completion]'" in done.stderr
