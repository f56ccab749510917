"""The plugin as protoc runs it: the files that it writes, its options, its errors."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import grpc_tools
import pytest

from tests.programs import environment
from tests.ttrpc.codegen.conftest import GOLDEN, Protoc

pytestmark = pytest.mark.programs

COMPILERS = {
    "grpcio-tools": (sys.executable, "-m", "grpc_tools.protoc"),
    "protoc": (shutil.which("protoc") or "",),
}


def texts(directory: Path) -> dict[str, str]:
    """The generated files in a directory, by path."""
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in sorted(directory.rglob("*_ttrpc.py*"))
        if path.suffix in {".py", ".pyi"}
    }


def test_generated_files_are_those_that_are_expected(generated: Path) -> None:
    """Each file with services has a module and its types; files without services have none."""
    assert texts(generated) == texts(GOLDEN)
    assert sorted(texts(GOLDEN)) == [
        "odd_names_ttrpc.py",
        "odd_names_ttrpc.pyi",
        "shop/v1/orders_ttrpc.py",
        "shop/v1/orders_ttrpc.pyi",
    ]


@pytest.mark.parametrize("name", COMPILERS)
def test_compilers(protoc: Protoc, tmp_path: Path, name: str) -> None:
    """protoc of grpcio-tools and the standard one give the same files."""
    compiler = COMPILERS[name]
    if not compiler[0]:
        pytest.skip("protoc is not installed")
    # Debian has the files of google/protobuf in another package than the compiler.
    options = (f"-I{Path(grpc_tools.__file__).parent / '_proto'}", f"--trio-ttrpc_out={tmp_path}")
    done = protoc(*options, "shop/v1/orders.proto", compiler=compiler)
    assert (done.returncode, done.stderr) == (0, "")
    assert texts(tmp_path).items() <= texts(GOLDEN).items()
    assert len(texts(tmp_path)) == 2


def test_the_order_of_the_files_changes_nothing(protoc: Protoc, tmp_path: Path) -> None:
    """The output is the same, whatever else is generated in the same run."""
    files = ["odd-names.proto", "shop/v1/orders.proto", "v1/import/class.proto"]
    for number, given in enumerate((files, files[::-1])):
        directory = tmp_path / str(number)
        directory.mkdir()
        assert protoc(f"--trio-ttrpc_out={directory}", *given).returncode == 0
        assert texts(directory) == texts(GOLDEN)


def test_the_runtime_can_be_another_module(protoc: Protoc, tmp_path: Path) -> None:
    """The option runtime names the module that is imported as ttrpc."""
    for runtime, line in (
        ("house.rpc", "from house import rpc as ttrpc\n"),
        ("house.ttrpc", "from house import ttrpc\n"),
        ("rpc", "import rpc as ttrpc\n"),
    ):
        options = (f"--trio-ttrpc_out={tmp_path}", f"--trio-ttrpc_opt=runtime={runtime}")
        assert protoc(*options, "shop/v1/orders.proto").returncode == 0
        for name, text in texts(tmp_path).items():
            before = texts(GOLDEN)[name].replace("from rsocket_trio import ttrpc\n", line)
            assert text == before


def test_relative_imports(protoc: Protoc, tmp_path: Path) -> None:
    """Message modules are imported relatively, except those of Google, which are installed."""
    options = (f"--trio-ttrpc_out={tmp_path}", "--trio-ttrpc_opt=relative_imports")
    assert protoc(*options, "shop/v1/orders.proto", "odd-names.proto").returncode == 0
    for suffix in ("py", "pyi"):
        lines = (tmp_path / f"shop/v1/orders_ttrpc.{suffix}").read_text().splitlines()
        imports = [line for line in lines if line.endswith("_pb2")]
        assert imports == [
            "from . import items_pb2",
            "from . import orders_pb2",
            "from google.protobuf import empty_pb2",
        ]
    text = (tmp_path / "odd_names_ttrpc.py").read_text()
    assert 'class_pb2 = import_module(".v1.import.class_pb2", __package__)\n' in text
    assert "from . import odd_names_pb2\n" in text


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("prefix=x", "unknown option 'prefix'; there are runtime=MODULE and relative_imports"),
        ("runtime=", "runtime= is not the name of a module"),
        ("runtime=a.class", "runtime=a.class is not the name of a module"),
        ("runtime=x;y", "runtime=x;y is not the name of a module"),
        ("relative_imports=yes", "relative_imports=yes is neither true nor false"),
    ],
)
def test_wrong_options(protoc: Protoc, tmp_path: Path, option: str, message: str) -> None:
    """protoc prints what is wrong, and nothing is written."""
    options = (f"--trio-ttrpc_out={tmp_path}", f"--trio-ttrpc_opt={option}")
    done = protoc(*options, "shop/v1/orders.proto")
    assert done.returncode != 0
    assert done.stderr == f"--trio-ttrpc_out: {message}\n"
    assert list(tmp_path.iterdir()) == []


def run(plugin: Path, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        [str(plugin), *arguments],
        input=stdin,
        env=environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_arguments(plugin: Path) -> None:
    """protoc gives no arguments; those of a person are answered with help."""
    status, output, errors = run(plugin, "--help")
    assert (status, errors) == (0, b"")
    assert output.startswith(b"usage: protoc --python_out=DIR --trio-ttrpc_out=DIR")
    assert run(plugin, "x.proto") == (2, b"", output)
    status, output, errors = run(plugin, "--version")
    assert (status, errors) == (0, b"")
    assert output.startswith(b"protoc-gen-trio-ttrpc ")


def test_input_that_is_no_request(plugin: Path) -> None:
    """It is a failure with a line that says so."""
    line = b"protoc-gen-trio-ttrpc: standard input is no request of protoc\n"
    assert run(plugin, stdin=b"\xff\xff") == (1, b"", line)


def test_an_empty_request(plugin: Path) -> None:
    """It has an answer without files, which says what the plugin supports."""
    from google.protobuf.compiler.plugin_pb2 import CodeGeneratorResponse

    status, output, errors = run(plugin)
    assert (status, errors) == (0, b"")
    answer = CodeGeneratorResponse.FromString(output)
    assert answer.supported_features == 3
    assert (answer.minimum_edition, answer.maximum_edition) == (998, 1001)
    assert not answer.file


def test_without_protobuf(tmp_path: Path) -> None:
    """The error names the extra that is missing."""
    script = (
        "import sys; sys.modules['google.protobuf'] = None\n"
        "from rsocket_trio.ttrpc.codegen.plugin import main; sys.exit(main([]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        stdin=subprocess.DEVNULL,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "protoc-gen-trio-ttrpc: messages of protobuf need the package protobuf, which is not"
        " installed: pip install 'rsocket-trio[ttrpc]'\n"
    )
