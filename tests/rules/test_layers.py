"""The layers of the package: a module imports only from its own or lower ones."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import rsocket_trio

ROOT = Path(rsocket_trio.__file__).parent
PACKAGE = "rsocket_trio"

# Lowest first; the units of one row may not import one another unless named in WITHIN.
LAYERS = [
    ["_version", "errors", "sealed", "payload", "streamed", "config", "lease", "uri"],
    ["frames", "metadata"],
    ["protocol"],
    ["log_text", "sizes"],
    ["log_policy", "os_support"],
    ["process_lock"],
    ["sockets"],
    ["transports"],
    ["reactivesocket"],
    ["interactions"],
    ["connection"],
    ["tracing", "arguments"],
    ["requester", "responder"],
    ["service"],
    ["client", "server", "routing", "codecs"],
    ["spool", "logfiles"],
    ["reactive_streams", "rsio", "lumberjack", "ttrpc"],
    ["collector"],
    ["__init__"],
    ["spark", "cli", "testing", "__main__"],
]
LEVEL = {unit: level for level, row in enumerate(LAYERS) for unit in row}
SANS_IO = {
    "_version",
    "errors",
    "sealed",
    "payload",
    "streamed",
    "config",
    "lease",
    "uri",
    "frames",
    "metadata",
    "protocol",
}
FORBIDDEN = {
    "trio", "outcome", "socket", "ssl", "select", "selectors", "asyncio", "time", "random",
    "threading", "concurrent", "multiprocessing", "logging", "subprocess",
}  # fmt: skip
# The higher part of a unit: the draft's public API uses requesters.
FACES = {
    "reactivesocket/__init__.py": "client",
    "reactivesocket/subscription.py": "client",
}
# The part of these units that does I/O; the rest of them is pure.
WITH_IO: dict[str, set[str]] = {
    "reactivesocket": {"__init__.py", "opening.py", "subscription.py", "transport.py"},
}  # fmt: skip
# The part of Lumberjack without I/O: the protocol, and what decides in its client.
PURE_LUMBERJACK = (
    "wire/",
    *(
        f"client/{name}.py"
        for name in ("backlog", "deliveries", "event_encoder", "flight", "hosts", "window_size")
    ),
)
# The part of ttrpc without I/O.
PURE_TTRPC = ("wire/",)
PUBLIC_ONLY = {"cli", "spark"}
# Pure modules that each wire uses.
NOT_OF_ONE_WIRE = {"protocol.retry", "uri"}

FILES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


def unit_of(module: str) -> str:
    """The unit of a dotted name inside the package; the package itself is ``__init__``."""
    return module.split(".")[0] if module else "__init__"


def imports_of(file: Path):
    """Yield (module, name, line) of every import, wherever it stands in the file.

    Modules of the package are given as ``.frames.header``, others by their whole name.
    """
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    package = list(file.parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                inside = alias.name == PACKAGE or alias.name.startswith(f"{PACKAGE}.")
                name = alias.name.removeprefix(PACKAGE).lstrip(".")
                yield (f".{name}" if inside else alias.name), None, node.lineno
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                base = package[: len(package) - (node.level - 1)]
                module = "." + ".".join([*base, *filter(None, [module])])
            elif module == PACKAGE or module.startswith(f"{PACKAGE}."):
                module = "." + module.removeprefix(PACKAGE).lstrip(".")
            for alias in node.names:
                yield module, alias.name, node.lineno


def targets(module: str, name: str | None):
    """The module of the package that an import reaches: ``from . import header`` too."""
    inner = module.lstrip(".")
    if name is not None:
        path = ROOT.joinpath(*filter(None, inner.split(".")), name)
        if path.with_suffix(".py").exists() or (path / "__init__.py").exists():
            return ".".join(filter(None, [inner, name]))
    return inner


@pytest.mark.parametrize("file", FILES, ids=str)
def test_imports_go_down(file):
    """No module imports from a higher layer, or from a unit beside its own on the lower rows."""
    unit = FACES.get(file.as_posix(), file.parts[0].removesuffix(".py"))
    for module, name, line in imports_of(file):
        if not module.startswith("."):
            continue
        other = unit_of(targets(module, name))
        where = f"{file}:{line} imports {other}"
        assert other in LEVEL, f"{where}, which is in no layer"
        assert LEVEL[other] <= LEVEL[unit], f"{where}, which is above it"


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_module_is_in_a_layer(file):
    """A new unit has to be given a layer."""
    assert file.parts[0].removesuffix(".py") in LEVEL


def is_pure(file: Path) -> bool:
    unit = file.parts[0].removesuffix(".py")
    return (
        unit in SANS_IO
        or (unit in WITH_IO and file.name not in WITH_IO[unit])
        or (unit == "lumberjack" and "/".join(file.parts[1:]).startswith(PURE_LUMBERJACK))
        or (unit == "ttrpc" and "/".join(file.parts[1:]).startswith(PURE_TTRPC))
    )


@pytest.mark.parametrize("file", [file for file in FILES if is_pure(file)], ids=str)
def test_no_io_through_protocol(file):
    """Through ``protocol`` nothing can do I/O, tell the time, roll dice, or log."""
    for module, _, line in imports_of(file):
        assert module.split(".")[0] not in FORBIDDEN, f"{file}:{line} imports {module}"


def test_forbidden_names_are_modules():
    """A misspelt name would forbid no module."""
    for name in FORBIDDEN - {"trio", "outcome"}:
        assert name in sys.stdlib_module_names


@pytest.mark.parametrize(("unit", "stranger"), [("frames", "metadata"), ("metadata", "frames")])
def test_frames_and_metadata_do_not_know_each_other(unit, stranger):
    """Frame encoding and the meaning of metadata are two subjects."""
    for file in FILES:
        if file.parts[0] == unit:
            for module, name, line in imports_of(file):
                if module.startswith("."):
                    assert unit_of(targets(module, name)) != stranger, f"{file}:{line}"


@pytest.mark.parametrize("file", FILES, ids=str)
def test_no_underscored_names_are_imported(file):
    """A name that begins with an underscore belongs to its own module."""
    for module, name, line in imports_of(file):
        for part in [*module.split("."), name or ""]:
            private = part.startswith("_") and not part.startswith("__")
            assert not private or part == "_version", f"{file}:{line} imports {module} {name}"


@pytest.mark.parametrize("file", [file for file in FILES if file.parts[0] in PUBLIC_ONLY], ids=str)
def test_tools_use_the_public_api(file):
    """The command line and Spark need only the public API."""
    for module, name, line in imports_of(file):
        if not module.startswith(".") or unit_of(targets(module, name)) in PUBLIC_ONLY:
            continue
        inner = targets(module, name)
        if not inner:
            assert name in rsocket_trio.__all__, f"{file}:{line} imports {name}"
            continue
        source = ROOT.joinpath(*inner.split("."))
        source = source / "__init__.py" if source.is_dir() else source.with_suffix(".py")
        exported = _all_of(source)
        assert name is None or name in {*exported, "__version__"} or inner.endswith(name), (
            f"{file}:{line} imports {name}, which {inner} does not export"
        )
        assert unit_of(inner) not in {"connection", "interactions", "protocol"}, (
            f"{file}:{line} reaches into {inner}"
        )


def _all_of(source: Path) -> set[str]:
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


@pytest.mark.parametrize("file", [f for f in FILES if f.parts[0] == "lumberjack"], ids=str)
def test_lumberjack_is_a_wire_of_its_own(file):
    """The part of Lumberjack without I/O knows nothing of the frames of RSocket."""
    for module, name, line in imports_of(file):
        if module.startswith(".") and is_pure(file):
            target = targets(module, name)
            known = unit_of(target) in {"errors", "lumberjack"} or target in NOT_OF_ONE_WIRE
            assert known, f"{file}:{line} imports {target}"


@pytest.mark.parametrize("file", [f for f in FILES if f.parts[:2] == ("ttrpc", "wire")], ids=str)
def test_the_wire_of_ttrpc_knows_only_errors(file):
    """The part of ttrpc without I/O imports errors, attrs and the standard library."""
    for module, name, line in imports_of(file):
        if module.startswith("."):
            target = targets(module, name)
            known = target == "errors" or target.startswith("ttrpc.wire")
            assert known, f"{file}:{line} imports {target}"
        else:
            top = module.split(".")[0]
            assert top == "attrs" or top in sys.stdlib_module_names, f"{file}:{line} imports {top}"


def test_there_are_modules_of_the_wire_of_ttrpc():
    """A name that no file has would check nothing."""
    assert len([file for file in FILES if file.parts[:2] == ("ttrpc", "wire")]) > 3
