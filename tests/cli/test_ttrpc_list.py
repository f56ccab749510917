"""``ttrpc list`` and ``ttrpc describe``; and how .proto files and descriptor sets are loaded."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import PROTOS

Cli = Callable[..., "subprocess.CompletedProcess[bytes]"]

DEFINITIONS = """\
// Many kinds of things.
syntax = "proto3";

package kinds;

// A message
// of two lines.
message All {
  // Inside.
  enum Color {
    RED = 0; // The first.
    BLUE = 5;
  }
  message Inner {}
  string text = 1; // A text.
  repeated Inner inners = 2;
  map<string, Inner> by_name = 3;
  optional bool flag = 4;
  oneof choice {
    // One way.
    bytes data = 5;
    Color color = 6;
  }
  All next = 7 [json_name = "following"];
}

enum Empty { NOTHING = 0; }

// Does things.
service Things {
  // Does it.
  rpc Do(All) returns (stream All.Inner);
}

service None {}
"""
MESSAGE = """\
// A message
// of two lines.
message kinds.All {
  // Inside.
  enum Color {
    // The first.
    RED = 0;
    BLUE = 5;
  }
  message Inner {}
  // A text.
  string text = 1;
  repeated kinds.All.Inner inners = 2;
  map<string, kinds.All.Inner> by_name = 3;
  optional bool flag = 4;
  oneof choice {
    // One way.
    bytes data = 5;
    kinds.All.Color color = 6;
  }
  kinds.All next = 7;
}
"""
SERVICE = """\
// Does things.
service kinds.Things {
  // Does it.
  rpc Do(kinds.All) returns (stream kinds.All.Inner);
}
"""


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A .proto file with many kinds of things."""
    path = tmp_path_factory.mktemp("protos") / "kinds.proto"
    path.write_text(DEFINITIONS)
    return str(path)


def test_the_list(cli: Cli, descriptor_set: str) -> None:
    """Each line is a method with its kind: services by name, methods in their order."""
    done = cli("ttrpc", "list", "--descriptor-set", descriptor_set)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    assert lines[:2] == [["test.Failing/Known", "unary"], ["test.Failing/Number", "unary"]]
    streaming = "ttrpc.integration.streaming.Streaming"
    assert lines[4:8] == [
        [f"{streaming}/Echo", "unary"],
        [f"{streaming}/EchoStream", "bidi_stream"],
        [f"{streaming}/SumStream", "client_stream"],
        [f"{streaming}/DivideStream", "server_stream"],
    ]


def test_the_list_as_json(cli: Cli, kinds: str) -> None:
    """Each line is an object."""
    done = cli("ttrpc", "list", "--proto", kinds, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {
            "method": "kinds.Things/Do",
            "kind": "server_stream",
            "request": "kinds.All",
            "response": "kinds.All.Inner",
        }
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kinds.All", MESSAGE),
        ("kinds.All.Inner", "message kinds.All.Inner {}\n"),
        ("kinds.Empty", "enum kinds.Empty {\n  NOTHING = 0;\n}\n"),
        ("kinds.None", "service kinds.None {}\n"),
        ("kinds.Things/Do", "// Does it.\nrpc Do(kinds.All) returns (stream kinds.All.Inner);\n"),
        (
            "kinds.Things",
            SERVICE,
        ),
    ],
)
def test_descriptions(cli: Cli, kinds: str, name: str, text: str) -> None:
    """A description is like the .proto file, with full names and with its comments."""
    done = cli("ttrpc", "describe", name, "--proto", kinds)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == text
    assert cli("ttrpc", "describe", "--proto", kinds, name).stdout == done.stdout


def test_descriptions_of_proto2(cli: Cli, tmp_path: Path) -> None:
    """Each field has its label there."""
    (tmp_path / "old.proto").write_text(
        'syntax = "proto2"; message Old { required int32 a = 1; optional string b = 2;'
        " repeated Old c = 3; oneof d { bool e = 4; } }"
    )
    done = cli("ttrpc", "describe", "Old", "--proto", "old.proto")
    lines = done.stdout.decode().splitlines()
    assert [line.strip() for line in lines[1:5]] == [
        "required int32 a = 1;",
        "optional string b = 2;",
        "repeated Old c = 3;",
        "oneof d {",
    ]
    assert lines[5].strip() == "bool e = 4;"


def test_descriptions_as_json(cli: Cli, kinds: str) -> None:
    """--json prints one object."""

    def described(name: str) -> dict[str, object]:
        done = cli("ttrpc", "describe", name, "--proto", kinds, "--json")
        assert (done.returncode, done.stdout.count(b"\n")) == (0, 1)
        value: dict[str, object] = json.loads(done.stdout)
        return value

    method = {
        "method": "kinds.Things/Do",
        "kind": "server_stream",
        "request": "kinds.All",
        "response": "kinds.All.Inner",
    }
    assert described("kinds.Things/Do") == method
    assert described("kinds.Things") == {"service": "kinds.Things", "methods": [method]}
    assert described("kinds.Empty") == {"enum": "kinds.Empty", "values": {"NOTHING": 0}}
    message = described("kinds.All")
    fields = {each["name"]: each for each in message["fields"]}  # type: ignore[attr-defined]
    assert fields["inners"] == {
        "name": "inners",
        "json_name": "inners",
        "number": 2,
        "type": "kinds.All.Inner",
        "repeated": True,
    }
    assert fields["by_name"]["type"] == "map<string, kinds.All.Inner>"
    assert "repeated" not in fields["by_name"]
    assert (fields["data"]["oneof"], fields["data"]["type"]) == ("choice", "bytes")
    assert "oneof" not in fields["flag"]
    assert fields["next"]["json_name"] == "following"


def test_an_unknown_name(cli: Cli, kinds: str) -> None:
    """The error names the services."""
    done = cli("ttrpc", "describe", "kinds.Other", "--proto", kinds)
    line = b"rsocket-trio: error: there is no 'kinds.Other'; services: kinds.None, kinds.Things\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", line)


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("kinds.Al", "kinds.All"),
        ("kinds.All.Iner", "kinds.All.Inner"),
        ("kinds.All.Colour", "kinds.All.Color"),
        ("kinds.Things/Du", "kinds.Things/Do"),
        ("kinds.Emty", "kinds.Empty"),
    ],
)
def test_a_name_that_is_nearly_right(cli: Cli, kinds: str, name: str, close: str) -> None:
    """The error proposes messages, enums and methods, too."""
    done = cli("ttrpc", "describe", name, "--proto", kinds)
    proposed = done.stderr.decode().partition("did you mean ")[2].partition("?")[0]
    assert close in proposed.split(" or ")


def test_a_file_without_methods(cli: Cli, tmp_path: Path) -> None:
    """The list is empty, and says so on standard error."""
    path = tmp_path / "no_service.proto"
    path.write_text('syntax = "proto3"; message Alone {}')
    done = cli("ttrpc", "list", "--proto", str(path))
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.endswith(b"there are no methods in these files\n")


def test_where_imports_are_found(cli: Cli, tmp_path: Path) -> None:
    """Imports are looked for beside the file, or where -I says."""
    assert cli("ttrpc", "list", "--proto", str(PROTOS / "failing.proto")).returncode == 0
    shutil.copytree(PROTOS, tmp_path / "protos")
    (tmp_path / "other.proto").write_text('syntax = "proto3"; import "streaming.proto";')
    done = cli("ttrpc", "list", "--proto", "other.proto")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"rsocket-trio: error: cannot compile other.proto: ")
    assert b"streaming.proto: File not found" in done.stderr
    done = cli("ttrpc", "list", "--proto", "other.proto", "-I", ".", "-I", "protos")
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 8)
    done = cli(
        "ttrpc", "list", "--proto", "streaming.proto", "--proto", "failing.proto", "-Iprotos"
    )
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 12)


def test_several_descriptor_sets(cli: Cli, tmp_path: Path) -> None:
    """Sets are put together, so one may have what another one imports."""
    for name in ("streaming", "failing"):
        options = (f"-I{PROTOS}", f"--descriptor_set_out={tmp_path / name}")
        protoc = (sys.executable, "-m", "grpc_tools.protoc")
        subprocess.run([*protoc, *options, f"{name}.proto"], check=True)
    done = cli("ttrpc", "list", "--descriptor-set", "failing")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"failing.proto imports streaming.proto, which the descriptor set does not have" in (
        done.stderr
    )
    done = cli("ttrpc", "list", "--descriptor-set", "failing", "--descriptor-set", "streaming")
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "one of the arguments --proto --descriptor-set is required"),
        (["--proto", "a", "--descriptor-set", "b"], "not allowed with argument"),
        (["--descriptor-set", "absent"], "cannot read 'absent': No such file or directory"),
        (["--descriptor-set", "text"], "text: this is no descriptor set of protoc"),
        (["--descriptor-set", "text", "-I", "."], "-I works only with --proto"),
        (["--proto", "absent.proto"], "cannot compile absent.proto: "),
        (["--proto", "text"], "cannot compile text: "),
    ],
)
def test_wrong_files(cli: Cli, tmp_path: Path, options: list[str], message: str) -> None:
    """The error names the file."""
    (tmp_path / "text").write_text("no protobuf")
    done = cli("ttrpc", "list", *options)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_another_protoc(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kinds: str
) -> None:
    """Without grpcio-tools the protoc of PATH is used; without both, the error says what to do."""
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = cli("ttrpc", "list", "--proto", kinds)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--proto needs a compiler of .proto files: pip install grpcio-tools" in done.stderr
    script = tmp_path / "protoc"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m grpc_tools.protoc "$@"\n')
    script.chmod(0o755)
    assert cli("ttrpc", "list", "--proto", kinds).stdout == b"kinds.Things/Do  server_stream\n"


@pytest.mark.parametrize("command", [["list"], ["describe", "kinds.All"], ["call", "/x", "a/B"]])
def test_without_protobuf(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, descriptor_set: str, command: list[str]
) -> None:
    """The error names the extra that is missing."""
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    done = cli("ttrpc", *command, "--descriptor-set", descriptor_set)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"pip install 'rsocket-trio[ttrpc]'" in done.stderr
    assert b"Traceback" not in done.stderr


def test_no_code_of_the_current_directory_runs(cli: Cli, tmp_path: Path) -> None:
    """A directory may have been prepared by others: its modules are not the compiler."""
    (tmp_path / "kinds.proto").write_text(DEFINITIONS)
    (tmp_path / "grpc_tools").mkdir()
    (tmp_path / "grpc_tools" / "__init__.py").write_text("open('ran', 'w').close()\n")
    (tmp_path / "grpc_tools" / "protoc.py").write_text("")
    done = cli("ttrpc", "list", "--proto", "kinds.proto")
    assert (done.returncode, done.stdout) == (0, b"kinds.Things/Do  server_stream\n")
    assert not (tmp_path / "ran").exists()
