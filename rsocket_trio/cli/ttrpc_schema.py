"""Load the services and messages that ``--proto`` or ``--descriptor-set`` name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from rsocket_trio.ttrpc.descriptors import DescriptorError, Descriptors

from .exits import USAGE, Failure

if TYPE_CHECKING:
    import argparse

__all__ = ["compile_protos", "has_schema", "load_descriptors", "places_of"]

_LINES_OF_ERROR: Final = 3
_INSTALL: Final = "pip install grpcio-tools, or install protoc (Debian: protobuf-compiler)"


def has_schema(args: argparse.Namespace) -> bool:
    """Return whether there are options that name services."""
    return bool(args.proto or args.descriptor_set)


def load_descriptors(args: argparse.Namespace) -> Descriptors:
    """Return the services and messages that the options name.

    Raises:
        Failure: A file cannot be read or compiled, or something is not installed.
    """
    if args.proto:
        data = compile_protos(args.proto, args.proto_path)
    else:
        if args.proto_path:
            raise Failure("-I works only with --proto", USAGE)
        # Sets in binary form can be put together in this way.
        data = b"".join(_read(Path(name)) for name in args.descriptor_set)
    try:
        return Descriptors.parse(data)
    except DescriptorError as error:
        raise Failure(f"{', '.join(args.proto or args.descriptor_set)}: {error}", USAGE) from error
    except ImportError as error:
        raise Failure(str(error), USAGE) from error


def places_of(files: list[str], paths: list[str]) -> list[str]:
    """Return the directories below which protoc looks for files."""
    return paths or list(dict.fromkeys(str(Path(file).parent) for file in files))


def compile_protos(files: list[str], paths: list[str], *outputs: str) -> bytes:
    """Return a descriptor set of .proto files, with all that they import and their comments.

    Args:
        files: The files.
        paths: Where imports are found; by default the directories of the files.
        outputs: Further options of protoc.

    Raises:
        Failure: They cannot be compiled, or no compiler is installed.
    """
    with TemporaryDirectory() as directory:
        result = Path(directory) / "set"
        command = [
            *_compiler(),
            *(f"-I{place}" for place in places_of(files, paths)),
            "--include_imports",
            "--include_source_info",
            f"--descriptor_set_out={result}",
            *outputs,
            # protoc would take others for options, or for files that have options.
            *(f"./{file}" if file.startswith(("-", "@")) else file for file in files),
        ]
        done = subprocess.run(  # the command is protoc, and the arguments are no shell text
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            # The first lines say what is wrong, and the others what follows from it.
            lines = done.stderr.strip().splitlines()[:_LINES_OF_ERROR]
            reason = "; ".join(lines) or f"protoc ended with status {done.returncode}"
            raise Failure(f"cannot compile {', '.join(files)}: {reason}", USAGE)
        return _read(result)


def _compiler() -> list[str]:
    if find_spec("grpc_tools") is not None:
        # Without -P a directory grpc_tools in the current directory would run in its place.
        return [sys.executable, "-P", "-m", "grpc_tools.protoc"]
    program = shutil.which("protoc")
    if program is None:
        raise Failure(f"--proto needs a compiler of .proto files: {_INSTALL}", USAGE)
    return [program]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Failure(f"cannot read {str(path)!r}: {reason}", USAGE) from error
