"""The layers of the package: a module imports only from its own or lower ones."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

import rsocket_trio
from tests.rules.sources import FILES, ROOT, none_of, tree_of

PACKAGE = "rsocket_trio"

# Lowest first; the units of one row may not import one another unless named in WITHIN.
LAYERS = [
    ["cutting", "field_checks", "escapes", "foreign", "json_texts", "lazy"],
    [
        "_version",
        "account",
        "errors",
        "overrides",
        "sealed",
        "payload",
        "streamed",
        "config",
        "lease",
        "uri",
        "statistics",
    ],
    ["frames", "metadata"],
    ["protocol"],
    ["log_text", "sizes"],
    ["log_policy", "os_support", "private_files", "one_waiter", "entrance", "stopping", "health"],
    ["process_lock"],
    ["sockets"],
    ["transports"],
    ["reactive_streams"],
    ["reactivesocket"],
    ["interactions"],
    ["connection"],
    ["tracing", "arguments", "lifespan"],
    ["repeating", "requester", "responder", "resubscribed"],
    ["service"],
    ["wires"],
    ["server", "routing", "codecs"],
    ["client"],
    ["pool"],
    ["portal"],
    ["blocking", "from_asyncio"],
    ["spool", "logfiles"],
    ["rsio", "lumberjack", "ttrpc"],
    ["workers"],
    ["collector", "metrics", "otel"],
    ["__init__"],
    ["spark", "cli", "testing", "__main__"],
]
LEVEL = {unit: level for level, row in enumerate(LAYERS) for unit in row}
SANS_IO = {
    "cutting",
    "field_checks",
    "escapes",
    "foreign",
    "json_texts",
    "_version",
    "account",
    "errors",
    "sealed",
    "payload",
    "overrides",
    "streamed",
    "config",
    "lease",
    "uri",
    "statistics",
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
# The part of rsio without I/O: messages, and the state of one connection.
PURE_RSIO = ("limits.py", "rules/", "wire/")
PUBLIC_ONLY = {"cli", "spark"}
# Pure modules that each wire uses.
NOT_OF_ONE_WIRE = {"json_texts", "protocol.retry", "uri"}


def unit_of(module: str) -> str:
    """The unit of a dotted name inside the package; the package itself is ``__init__``."""
    return module.split(".")[0] if module else "__init__"


@cache
def imports_of(file: Path) -> list[tuple[str, str | None, int]]:
    """The (module, name, line) of every import, wherever it stands in the file.

    Modules of the package are given as ``.frames.header``, others by their whole name.
    """
    return list(_imports_of(file))


def _imports_of(file: Path):
    package = list(file.parent.parts)
    for node in ast.walk(tree_of(file)):
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


@cache
def targets(module: str, name: str | None) -> str:
    """The module of the package that an import reaches: ``from . import header`` too."""
    inner = module.lstrip(".")
    if name is not None:
        path = ROOT.joinpath(*filter(None, inner.split(".")), name)
        if path.with_suffix(".py").exists() or (path / "__init__.py").exists():
            return ".".join(filter(None, [inner, name]))
    return inner


def unit_at(file: Path) -> str:
    """The unit of a file."""
    return file.parts[0].removesuffix(".py")


def upward_imports(file: Path):
    unit = FACES.get(file.as_posix(), unit_at(file))
    for module, name, line in imports_of(file):
        if not module.startswith("."):
            continue
        other = unit_of(targets(module, name))
        where = f"{file}:{line} imports {other}"
        if other not in LEVEL:
            yield f"{where}, which is in no layer"
        elif LEVEL[other] > LEVEL[unit]:
            yield f"{where}, which is above it"


def test_every_module_is_in_a_layer():
    """A new unit has to be given a layer."""
    none_of(str(file) for file in FILES if unit_at(file) not in LEVEL)


def test_the_page_has_the_same_layers():
    """Readers of the code see the layers in docs/design.md, in the order that is checked here."""
    design = (Path(__file__).parents[2] / "docs" / "design.md").read_text(encoding="utf-8")
    text = design.partition("\n## Layers\n")[2].partition("\n## ")[0]
    table = [
        re.findall("`(.+?)`", row.split("|")[1]) for row in text.splitlines() if row[:2] == "| "
    ]
    rows = list(filter(None, table))
    units = [unit for row in rows for unit in row]
    assert set(LEVEL) - set(units) == {"__init__", "__main__", "_version", "lazy"}
    assert all(len({LEVEL[unit] for unit in row}) == 1 for row in rows)
    levels = [LEVEL[unit] for unit in units]
    assert levels == sorted(levels)
    assert {unit for row in rows[:4] for unit in row} == SANS_IO - {"_version"}


def test_imports_go_down():
    """No module imports from a higher layer, or from a unit beside its own on the lower rows."""
    none_of(fault for file in FILES for fault in upward_imports(file))


def is_pure(file: Path) -> bool:
    unit = unit_at(file)
    return (
        unit in SANS_IO
        or (unit in WITH_IO and file.name not in WITH_IO[unit])
        or (unit == "lumberjack" and "/".join(file.parts[1:]).startswith(PURE_LUMBERJACK))
        or (unit == "ttrpc" and "/".join(file.parts[1:]).startswith(PURE_TTRPC))
        or (unit == "rsio" and "/".join(file.parts[1:]).startswith(PURE_RSIO))
    )


def test_no_io_through_protocol():
    """Through ``protocol`` nothing can do I/O, tell the time, roll dice, or log."""
    pure = [file for file in FILES if is_pure(file)]
    assert {"frames", "protocol", "reactivesocket", "lumberjack", "rsio"} <= {*map(unit_at, pure)}
    none_of(
        f"{file}:{line} imports {module}"
        for file in pure
        for module, _, line in imports_of(file)
        if module.split(".")[0] in FORBIDDEN
    )


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


def is_private(name: str) -> bool:
    """Return whether a name belongs to its own module."""
    return name.startswith("_") and not name.startswith("__") and name != "_version"


def test_no_underscored_names_are_imported():
    """A name that begins with an underscore belongs to its own module."""
    none_of(
        f"{file}:{line} imports {module} {name}"
        for file in FILES
        for module, name, line in imports_of(file)
        if any(map(is_private, [*module.split("."), name or ""]))
    )


def internal_imports(file: Path):
    for module, name, line in imports_of(file):
        if not module.startswith(".") or unit_of(targets(module, name)) in PUBLIC_ONLY:
            continue
        inner = targets(module, name)
        if not inner:
            if name not in rsocket_trio.__all__:
                yield f"{file}:{line} imports {name}"
            continue
        source = Path(*inner.split("."))
        is_package = (ROOT / source).is_dir()
        source = source / "__init__.py" if is_package else source.with_suffix(".py")
        exported = {*_all_of(source), "__version__"}
        if name is not None and name not in exported and not inner.endswith(name):
            yield f"{file}:{line} imports {name}, which {inner} does not export"
        if unit_of(inner) in {"connection", "interactions", "protocol"}:
            yield f"{file}:{line} reaches into {inner}"


def test_tools_use_the_public_api():
    """The command line and Spark need only the public API."""
    tools = [file for file in FILES if unit_at(file) in PUBLIC_ONLY]
    assert {*map(unit_at, tools)} == PUBLIC_ONLY
    none_of(fault for file in tools for fault in internal_imports(file))


@cache
def _all_of(source: Path) -> set[str]:
    for node in tree_of(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def test_lumberjack_is_a_wire_of_its_own():
    """The part of Lumberjack without I/O knows nothing of the frames of RSocket."""
    pure = [file for file in FILES if unit_at(file) == "lumberjack" and is_pure(file)]
    assert pure
    none_of(
        f"{file}:{line} imports {targets(module, name)}"
        for file in pure
        for module, name, line in imports_of(file)
        if module.startswith(".")
        and unit_of(targets(module, name))
        not in {"cutting", "errors", "field_checks", "lumberjack"}
        and targets(module, name) not in NOT_OF_ONE_WIRE
    )


def test_the_wire_of_ttrpc_knows_only_errors():
    """The part of ttrpc without I/O imports attrs, the stdlib, and what all wires share below."""
    pure = [file for file in FILES if file.parts[:2] == ("ttrpc", "wire")]
    assert len(pure) > 3
    none_of(
        f"{file}:{line} imports {module}"
        for file in pure
        for module, name, line in imports_of(file)
        if not _is_of_the_wire(module, name)
    )


def _is_of_the_wire(module: str, name: str) -> bool:
    if module.startswith("."):
        target = targets(module, name)
        known = {"cutting", "errors", "escapes", "field_checks", "foreign"}
        return target in known or target.startswith("ttrpc.wire")
    top = module.split(".")[0]
    return top == "attrs" or top in sys.stdlib_module_names


def test_the_rules_of_rsio_know_only_errors():
    """The part of rsio without I/O imports errors, field_checks, attrs and the stdlib."""
    pure = [file for file in FILES if unit_at(file) == "rsio" and is_pure(file)]
    assert len(pure) > 10
    none_of(
        f"{file}:{line} imports {module}"
        for file in pure
        for module, name, line in imports_of(file)
        if not _is_pure_rsio(module, name)
    )


def _is_pure_rsio(module: str, name: str) -> bool:
    if module.startswith("."):
        target = targets(module, name)
        return target in {"cutting", "errors", "field_checks"} or target.startswith(
            ("rsio.limits", "rsio.rules", "rsio.wire")
        )
    top = module.split(".")[0]
    return top == "attrs" or top in sys.stdlib_module_names
