"""``ttrpc generate``: write the Python modules of .proto files, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rsocket_trio.ttrpc.extras import require

from .exits import DONE, USAGE, Failure
from .logs import log_to_stderr
from .standard_streams import print_bytes
from .ttrpc_schema import compile_protos, places_of

if TYPE_CHECKING:
    import argparse

    from google.protobuf.descriptor_pb2 import FileDescriptorSet

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Run protoc for the messages, and our own generator for the services.

    Raises:
        Failure: A file cannot be compiled or written, or something is not installed.
    """
    log_to_stderr(args)
    out = Path(args.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        # What stands before the first colon is options, here none.
        messages = (f"--python_out=:{out}", f"--pyi_out=:{out}")
        data = compile_protos(args.files, args.proto_path, *messages)
        compiled = require("google.protobuf.descriptor_pb2").FileDescriptorSet.FromString(data)
        request = require("google.protobuf.compiler.plugin_pb2").CodeGeneratorRequest(
            file_to_generate=_names(compiled, args.files, args.proto_path),
            parameter="relative_imports" if args.relative_imports else "",
            proto_file=compiled.file,
        )
    except ImportError as error:
        raise Failure(str(error), USAGE) from error
    except OSError as error:
        raise Failure(f"cannot write to {str(out)!r}: {error.strerror}", USAGE) from error
    from rsocket_trio.ttrpc.codegen.plugin import generate

    answer = generate(request)
    if answer.error:
        raise Failure(answer.error, USAGE)
    for file in answer.file:
        path = out / file.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.content, "utf-8")
        except OSError as error:
            raise Failure(f"cannot write {str(path)!r}: {error.strerror}", USAGE) from error
        print_bytes(f"{path}\n".encode(errors="surrogateescape"))
    return DONE


def _names(compiled: FileDescriptorSet, files: list[str], paths: list[str]) -> list[str]:
    """Return the names that protoc has given to the files."""
    wanted = {Path(file).resolve() for file in files}
    places = places_of(files, paths)
    return [
        each.name
        for each in compiled.file
        if any((Path(place) / each.name).resolve() in wanted for place in places)
    ]
