"""The program ``protoc-gen-trio-ttrpc``: reads a request of protoc, and answers it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rsocket_trio._version import __version__
from rsocket_trio.ttrpc.extras import require

from .model import file_model, message_files
from .module_source import module_source
from .names import IllegalName, check_names, module_path, stub_module
from .options import OptionError, parse_options
from .stub_source import stub_source

if TYPE_CHECKING:
    from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest, CodeGeneratorResponse

__all__ = ["generate", "main"]

_USAGE: Final = """\
usage: protoc --python_out=DIR --trio-ttrpc_out=DIR [--trio-ttrpc_opt=OPTION] FILE.proto ...
       python -m grpc_tools.protoc, with the same arguments

protoc runs this program. It writes a module x_ttrpc.py and its types x_ttrpc.pyi for each
x.proto with services.

options:
  runtime=MODULE    import the runtime from MODULE (default rsocket_trio.ttrpc)
  relative_imports  import message modules relative to the generated module, except google/
"""

# The editions of .proto files. Services are the same in all of them.
_PROTO2: Final = 998
_LAST_EDITION: Final = 1001  # 2024


def main(argv: Sequence[str] | None = None) -> int:
    """Read a request from standard input, and write the answer to standard output.

    Args:
        argv: The arguments without the program name; by default those of the process. protoc
            gives none.

    Returns:
        The exit status. An error in the options is no failure: protoc prints what the answer says.
    """
    arguments = sys.argv[1:] if argv is None else argv
    if arguments or sys.stdin.isatty():
        return _explain(arguments)
    try:
        plugin = require("google.protobuf.compiler.plugin_pb2")
        message = require("google.protobuf.message")
    except ImportError as error:
        return _fail(str(error))
    try:
        request = plugin.CodeGeneratorRequest.FromString(sys.stdin.buffer.read())
    except message.DecodeError:
        return _fail("standard input is no request of protoc")
    sys.stdout.buffer.write(generate(request).SerializeToString())
    sys.stdout.buffer.flush()
    return 0


def generate(request: CodeGeneratorRequest) -> CodeGeneratorResponse:
    """Return the answer to a request: the generated files, or the text of an error."""
    answer: CodeGeneratorResponse = require(
        "google.protobuf.compiler.plugin_pb2"
    ).CodeGeneratorResponse()
    answer.supported_features = answer.FEATURE_PROTO3_OPTIONAL | answer.FEATURE_SUPPORTS_EDITIONS
    answer.minimum_edition = _PROTO2
    answer.maximum_edition = _LAST_EDITION
    try:
        options = parse_options(request.parameter)
        check_names(request.proto_file)
    except (OptionError, IllegalName) as error:
        answer.error = str(error)
        return answer
    messages = message_files(request.proto_file)
    files = {file.name: file for file in request.proto_file}
    for name in request.file_to_generate:
        if not files[name].service:
            continue
        model = file_model(files[name], messages, options)
        path = module_path(stub_module(name), ".py")
        answer.file.add(name=path, content=module_source(model))
        answer.file.add(name=f"{path}i", content=stub_source(model))
    return answer


def _explain(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--version"]:
        print(f"protoc-gen-trio-ttrpc {__version__}")
        return 0
    wanted = list(arguments) in (["--help"], ["-h"])
    print(_USAGE, end="", file=sys.stdout if wanted else sys.stderr)
    return 0 if wanted else 2


def _fail(text: str) -> int:
    print(f"protoc-gen-trio-ttrpc: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
