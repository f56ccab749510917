"""``ttrpc generate``: all modules of .proto files by one command."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ttrpc.codegen.conftest import GOLDEN, PROTOS

Cli = Callable[..., "subprocess.CompletedProcess[bytes]"]


def test_the_modules_are_those_of_protoc_with_the_plugin(cli: Cli, tmp_path: Path) -> None:
    """The plugin need not be on the path, and no option names it."""
    done = cli(
        "ttrpc", "generate", f"{PROTOS}/shop/v1/orders.proto", "-I", str(PROTOS), "--out=gen"
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"gen/shop/v1/orders_ttrpc.py\ngen/shop/v1/orders_ttrpc.pyi\n"
    made = tmp_path / "gen/shop/v1"
    assert sorted(path.name for path in made.iterdir()) == [
        "orders_pb2.py",
        "orders_pb2.pyi",
        "orders_ttrpc.py",
        "orders_ttrpc.pyi",
    ]
    for name in "orders_ttrpc.py", "orders_ttrpc.pyi":
        assert (made / name).read_text() == (GOLDEN / "shop/v1" / name).read_text()


def test_a_file_in_the_current_directory(cli: Cli, tmp_path: Path) -> None:
    """Neither -I nor --out is needed, and a file without services has messages alone."""
    (tmp_path / "a.proto").write_text('syntax = "proto3"; message A {}')
    (tmp_path / "b.proto").write_text(
        'syntax = "proto3"; import "a.proto"; service B { rpc X(A) returns (A); }'
    )
    done = cli("ttrpc", "generate", "a.proto", "b.proto", "--relative-imports")
    assert (done.returncode, done.stdout) == (0, b"b_ttrpc.py\nb_ttrpc.pyi\n")
    assert (tmp_path / "a_pb2.py").exists()
    assert "from . import a_pb2" in (tmp_path / "b_ttrpc.py").read_text()


def test_the_name_of_a_file_is_no_option(cli: Cli, tmp_path: Path) -> None:
    """Else the files of a directory (``*.proto``) could have protoc start a program in it."""
    for name in "@a.proto", "-a.proto":
        (tmp_path / name).write_text('syntax = "proto3";')
    (tmp_path / "a.proto").write_text("--plugin=protoc-gen-z=./z\n--z_out=.\n")
    (tmp_path / "z").write_text("#!/bin/sh\ntouch started\n")
    (tmp_path / "z").chmod(0o700)
    done = cli("ttrpc", "generate", "--out=a:b", "--", "@a.proto", "-a.proto")
    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(path.name for path in (tmp_path / "a:b").glob("*.py")) == [
        "@a_pb2.py",
        "_a_pb2.py",
    ]
    assert cli("ttrpc", "list", "--proto", "@a.proto").returncode == 0
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.proto"], b"cannot compile none.proto: "),
        (["a.proto", "--out=file"], b"cannot write to 'file': File exists"),
    ],
)
def test_what_cannot_be_done(cli: Cli, tmp_path: Path, arguments: list[str], says: bytes) -> None:
    """One line says what is wrong, and the status is that of a wrong use."""
    (tmp_path / "a.proto").write_text('syntax = "proto3"; message A {}')
    (tmp_path / "file").write_text("")
    done = cli("ttrpc", "generate", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(b"rsocket-trio: error: " + says)
    assert done.stderr.count(b"\n") == 1
