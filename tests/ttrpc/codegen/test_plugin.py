"""The plugin: the files that it writes, its options, its errors; and as protoc runs it."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import grpc_tools
import pytest
from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest, CodeGeneratorResponse
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from rsocket_trio.ttrpc.codegen.plugin import generate, main
from tests.programs import environment
from tests.ttrpc.codegen.conftest import GOLDEN, PROTOS, Protoc

COMPILERS = {
    "grpcio-tools": (sys.executable, "-m", "grpc_tools.protoc"),
    "protoc": (shutil.which("protoc") or "",),
}
FILES = ["odd-names.proto", "shop/v1/items.proto", "shop/v1/orders.proto", "v1/import/class.proto"]

Request = Callable[..., CodeGeneratorRequest]


def texts(directory: Path) -> dict[str, str]:
    """The generated files in a directory, by path."""
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in sorted(directory.rglob("*_ttrpc.py*"))
        if path.suffix in {".py", ".pyi"}
    }


@pytest.fixture(scope="session")
def request_of(tmp_path_factory: pytest.TempPathFactory) -> Request:
    """Makes requests for files, as protoc does."""
    path = tmp_path_factory.mktemp("set") / "set.binpb"
    options = ("--include_imports", "--include_source_info", f"--descriptor_set_out={path}")
    subprocess.run(
        [*COMPILERS["grpcio-tools"], f"-I{PROTOS}", *options, *FILES], check=True, timeout=60
    )
    files = FileDescriptorSet.FromString(path.read_bytes()).file
    return lambda *names, parameter="": CodeGeneratorRequest(
        file_to_generate=names, parameter=parameter, proto_file=files
    )


def generated_texts(request: CodeGeneratorRequest) -> dict[str, str]:
    """The generated files of an answer, by path."""
    answer = generate(request)
    assert not answer.error
    return {file.name: file.content for file in answer.file}


def test_generated_files_are_those_that_are_expected(request_of: Request) -> None:
    """Each file with services has a module and its types; files without services have none."""
    assert generated_texts(request_of(*FILES)) == texts(GOLDEN)
    assert sorted(texts(GOLDEN)) == [
        "odd_names_ttrpc.py",
        "odd_names_ttrpc.pyi",
        "shop/v1/orders_ttrpc.py",
        "shop/v1/orders_ttrpc.pyi",
    ]


def test_what_else_is_generated_changes_nothing(request_of: Request) -> None:
    """The output for a file is the same, whichever files are generated in the same run."""
    assert generated_texts(request_of(*FILES[::-1])) == texts(GOLDEN)
    for name in FILES:
        assert generated_texts(request_of(name)).items() <= texts(GOLDEN).items()


def test_without_comments(request_of: Request) -> None:
    """Docstrings say then what kind of method it is."""
    request = request_of("shop/v1/orders.proto")
    for file in request.proto_file:
        file.ClearField("source_code_info")
    for text in generated_texts(request).values():
        assert '"""``GetOrder``: one request, one response."""' in text
        assert '"""A client of the service ``shop.v1.Orders``."""' in text


@pytest.mark.parametrize(
    ("runtime", "line"),
    [
        ("house.rpc", "from house import rpc as ttrpc\n"),
        ("house.ttrpc", "from house import ttrpc\n"),
        ("rpc", "import rpc as ttrpc\n"),
        ("ttrpc", "import ttrpc\n"),
    ],
)
def test_the_runtime_can_be_another_module(request_of: Request, runtime: str, line: str) -> None:
    """The option runtime names the module that is imported as ttrpc."""
    made = generated_texts(request_of("shop/v1/orders.proto", parameter=f"runtime={runtime}"))
    for name, text in made.items():
        before = texts(GOLDEN)[name].replace("from rsocket_trio import ttrpc\n", line)
        assert text == before
    assert len(made) == 2


@pytest.mark.parametrize(
    "option", ["relative_imports", "relative_imports=true", ",relative_imports,"]
)
def test_relative_imports(request_of: Request, option: str) -> None:
    """Message modules are imported relatively, except those of Google, which are installed."""
    made = generated_texts(request_of(*FILES, parameter=option))
    for suffix in ("py", "pyi"):
        lines = made[f"shop/v1/orders_ttrpc.{suffix}"].splitlines()
        assert [line for line in lines if line.endswith("_pb2")] == [
            "from . import items_pb2",
            "from . import orders_pb2",
            "from google.protobuf import empty_pb2",
        ]
    text = made["odd_names_ttrpc.py"]
    assert 'class_pb2 = import_module(".v1.import.class_pb2", __package__)\n' in text
    assert "from . import odd_names_pb2\n" in text
    off = "relative_imports=false,runtime=rsocket_trio.ttrpc"
    assert generated_texts(request_of(*FILES, parameter=off)) == texts(GOLDEN)


def test_relative_imports_of_other_packages() -> None:
    """They go up to the directory that both have in common."""
    request = CodeGeneratorRequest(file_to_generate=["a/b/x.proto"], parameter="relative_imports")
    names = ["a/c/y.proto", "z.proto", "a/b/d/w.proto", "a/c/b/y.proto"]
    for number, name in enumerate(names):
        request.proto_file.add(name=name).message_type.add(name=f"M{number}")
    service = request.proto_file.add(name="a/b/x.proto").service.add(name="S")
    for number in range(len(names)):
        service.method.add(name=f"Do{number}", input_type=f".M{number}", output_type=f".M{number}")
    made = generated_texts(request)
    lines = made["a/b/x_ttrpc.py"].splitlines()
    assert [line for line in lines if "pb2" in line and "import" in line] == [
        "from ... import z_pb2",
        "from ..c import y_pb2 as a_c_y_pb2",
        "from ..c.b import y_pb2 as a_c_b_y_pb2",
        "from .d import w_pb2",
    ]
    assert "request=ttrpc.codec_for(a_c_b_y_pb2.M3)" in made["a/b/x_ttrpc.py"]


def test_message_modules_with_the_same_name() -> None:
    """Each has a name of its own in the generated module."""
    request = CodeGeneratorRequest(file_to_generate=["s.proto"])
    names = ["a/x.proto", "a_x.proto", "b/x.proto", "1/y.proto", "1/__y.proto", "2y.proto"]
    for number, name in enumerate(names):
        request.proto_file.add(name=name).message_type.add(name=f"M{number}")
    service = request.proto_file.add(name="s.proto").service.add(name="S")
    for number in range(len(names)):
        service.method.add(name=f"Do{number}", input_type=f".M{number}", output_type=f".M{number}")
    text = generated_texts(request)["s_ttrpc.py"]
    lines = [line for line in text.splitlines() if "pb2" in line and "import" in line]
    assert sorted(lines) == [
        "from a import x_pb2 as a_x_pb2",
        "from b import x_pb2 as b_x_pb2",
        "import a_x_pb2 as a_x_pb2_",
        'm2y_pb2 = import_module("2y_pb2")',
        'm__y_pb2 = import_module("1.__y_pb2")',
        'y_pb2 = import_module("1.y_pb2")',
    ]
    compile(text, "s_ttrpc.py", "exec")


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
def test_wrong_options(request_of: Request, option: str, message: str) -> None:
    """The answer says what is wrong, and has no files."""
    answer = generate(request_of("shop/v1/orders.proto", parameter=option))
    assert (answer.error, len(answer.file)) == (message, 0)


def _set_file(request: CodeGeneratorRequest, name: str) -> None:
    request.proto_file[-1].name = name


def _set_package(request: CodeGeneratorRequest, name: str) -> None:
    request.proto_file[-1].package = name


def _set_message(request: CodeGeneratorRequest, name: str) -> None:
    request.proto_file[-1].message_type.add(name="Outer").nested_type.add(name=name)


def _set_service(request: CodeGeneratorRequest, name: str) -> None:
    request.proto_file[-1].service.add(name=name)


def _set_method(request: CodeGeneratorRequest, name: str) -> None:
    request.proto_file[-1].service.add(name="Fine").method.add(name=name)


@pytest.mark.parametrize("place", [_set_package, _set_message, _set_service, _set_method])
@pytest.mark.parametrize("name", ["X:\n    pass\nimport os\nclass Y", 'X")', "1X", "a b", "ä", " "])
def test_names_that_are_no_identifiers(request_of: Request, place: Callable[..., None], name: str):
    """Whoever makes the request, no name in it becomes code of another kind."""
    request = request_of("shop/v1/orders.proto")
    place(request, name)
    answer = generate(request)
    assert (answer.error.endswith(f"is no identifier: {name!r}"), len(answer.file)) == (True, 0)


def test_the_name_of_a_file_is_one_line(request_of: Request) -> None:
    """It stands in a comment."""
    request = request_of("shop/v1/orders.proto")
    _set_file(request, "a.proto\nimport os")
    assert generate(request).error == (
        "the name of a file cannot be printed: 'a.proto\\nimport os'"
    )


@pytest.mark.programs
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


@pytest.mark.programs
def test_protoc_prints_errors(protoc: Protoc, tmp_path: Path) -> None:
    """Nothing is written then."""
    options = (f"--trio-ttrpc_out={tmp_path}", "--trio-ttrpc_opt=prefix=x")
    done = protoc(*options, "shop/v1/orders.proto")
    assert done.returncode != 0
    assert done.stderr.startswith("--trio-ttrpc_out: unknown option 'prefix'")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.programs
def test_the_files_of_protoc(generated: Path) -> None:
    """protoc gives the plugin what the other tests give it."""
    assert texts(generated) == texts(GOLDEN)


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., tuple[int, bytes, bytes]]:
    """Run the program; return its status, its output and what it says on standard error."""

    def run(*arguments: str, stdin: bytes | None = b"") -> tuple[int, bytes, bytes]:
        buffer = io.BytesIO(stdin or b"")
        stream = SimpleNamespace(buffer=buffer, isatty=lambda: stdin is None)
        monkeypatch.setattr(sys, "stdin", stream)
        status = main(arguments)
        return status, *capsysbinary.readouterr()

    return run


Run = Callable[..., tuple[int, bytes, bytes]]


def test_arguments(run: Run) -> None:
    """protoc gives no arguments; those of a person are answered with help."""
    status, output, errors = run("--help")
    assert (status, errors) == (0, b"")
    assert output.startswith(b"usage: protoc --python_out=DIR --trio-ttrpc_out=DIR")
    assert run("x.proto") == (2, b"", output)
    assert run(stdin=None) == (2, b"", output)
    status, output, errors = run("--version")
    assert (status, errors) == (0, b"")
    assert output.startswith(b"protoc-gen-trio-ttrpc ")


def test_a_request(run: Run, request_of: Request) -> None:
    """The answer goes to standard output."""
    request = request_of(*FILES)
    status, output, errors = run(stdin=request.SerializeToString())
    assert (status, errors) == (0, b"")
    assert CodeGeneratorResponse.FromString(output) == generate(request)


def test_input_that_is_no_request(run: Run) -> None:
    """It is a failure with a line that says so."""
    line = b"protoc-gen-trio-ttrpc: standard input is no request of protoc\n"
    assert run(stdin=b"\xff\xff") == (1, b"", line)


def test_an_empty_request(run: Run) -> None:
    """It has an answer without files, which says what the plugin supports."""
    status, output, errors = run()
    assert (status, errors) == (0, b"")
    answer = CodeGeneratorResponse.FromString(output)
    assert answer.supported_features == 3
    assert (answer.minimum_edition, answer.maximum_edition) == (998, 1001)
    assert not answer.file


def test_without_protobuf(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra that is missing."""
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    status, output, errors = run()
    assert (status, output) == (1, b"")
    assert errors == (
        b"protoc-gen-trio-ttrpc: messages of protobuf need the package protobuf, which is not"
        b" installed: pip install 'rsocket-trio[ttrpc]'\n"
    )


@pytest.mark.programs
def test_the_program(plugin: Path) -> None:
    """It ends with the status that `main` returns."""
    done = subprocess.run(
        [str(plugin), "x"], env=environment(), capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"usage: ")
