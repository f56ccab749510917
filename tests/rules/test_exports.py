"""The public names: every ``__all__`` is complete, sorted and true."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import rsocket_trio
from tests.programs import environment
from tests.rules.sources import ROOT, none_of, tree_of

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(rsocket_trio.__path__, "rsocket_trio.")
    if not module.name.endswith("__main__")
)


def body_of(name: str) -> list[ast.stmt]:
    path = Path(*name.split(".")[1:])
    path = path / "__init__.py" if (ROOT / path).is_dir() else path.with_suffix(".py")
    return tree_of(path).body


def untrue_exports(name: str):
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", ())
    if len(set(exported)) < len(exported):
        yield f"{name} exports a name twice"
    yield from (f"{name} has no {each}" for each in exported if not hasattr(module, each))
    # Constants, classes, then functions: the order of the linter's rule for __all__.
    kind = [(not each.isupper(), not each[0].isupper(), each) for each in exported]
    if sorted(kind) != kind:
        yield f"the __all__ of {name} is not in order"


def test_all_is_true_and_sorted():
    """Each name of ``__all__`` exists, once, and they are in order."""
    none_of(fault for name in ["rsocket_trio", *MODULES] for fault in untrue_exports(name))


def hidden_names(name: str):
    body = body_of(name)
    public = {
        node.name
        for node in body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
    }
    # A name in a case is not an import.
    if not public or name == "rsocket_trio.testing.transport_suite":
        return
    exported = set(getattr(importlib.import_module(name), "__all__", ()))
    if not exported:
        yield f"{name} has no __all__"
    elif hidden := public - exported - ALLOWED.get(name, set()):
        yield f"{name} does not export {sorted(hidden)}"


def test_public_functions_and_classes_are_exported():
    """A function or class without an underscore is in ``__all__``, or used in its package."""
    none_of(fault for name in MODULES for fault in hidden_names(name))


ALLOWED: dict[str, set[str]] = {
    "rsocket_trio.errors": {"code_name"},
    "rsocket_trio.interactions.handler_errors": {"error_frame_for"},
    "rsocket_trio.metadata.mime_types": {"decode_id_or_name", "encode_id_or_name"},
    "rsocket_trio.uri": {"join_host_port"},
}
"""Helpers that other modules of this package use and that are not for users."""


def test_the_package_exports_every_error():
    """Every error that a user may have to catch can be imported from the top module."""
    from rsocket_trio import errors

    helpers = {
        "addressed",
        "fresh_copy",
        "never_sent",
        "outcome_of_ours",
        "seconds_to_wait",
        "setup_error",
        "setup_refusal",
        "single_error",
        "stream_error",
        "MetadataLengthError",
    }
    assert set(errors.__all__) - helpers <= set(rsocket_trio.__all__)


@pytest.mark.parametrize("name", ["connect", "serve", "Router", "Requester", "Payload"])
def test_the_names_of_the_first_example_can_be_imported(name):
    """The names of the first example are in the top module."""
    assert getattr(rsocket_trio, name) is not None


@pytest.mark.parametrize("package", ["", ".collector", ".lumberjack", ".spark"])
def test_packages_import_at_run_time_what_type_checkers_see(package):
    """Their names are imported when they are used first; each is in both lists, with one module."""
    name = f"rsocket_trio{package}"
    module = importlib.import_module(name)
    [seen] = [
        node
        for node in body_of(name)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    homes = {
        alias.name: node.module
        for node in seen.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == module._HOMES
    assert {*homes, "__version__"} == {*module.__all__, "__version__"}
    assert set(module.__all__) <= set(dir(module))
    for each in module.__all__:
        assert getattr(module, each) is not None


def test_a_task_of_spark_imports_neither_clients_nor_servers():
    """Each of Spark's workers imports what it needs: half a second of processor time otherwise."""
    pytest.importorskip("pyspark", reason="pip install 'rsocket-trio[spark]'")
    program = (
        "import sys, rsocket_trio.spark.spool_source.stream_reader\n"
        "wrong = {'client', 'server', 'routing', 'connection', 'sockets'}\n"
        "print(sorted(name for name in wrong if f'rsocket_trio.{name}' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert done.stdout == "[]\n"


def test_a_client_without_middleware_imports_no_handlers():
    """It would wait twice as long for its first connection."""
    program = (
        "import sys, rsocket_trio.client\n"
        "print(sorted({'routing', 'codecs'} & {name.split('.')[1] for name in sys.modules"
        " if name.startswith('rsocket_trio.')}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert done.stdout == "[]\n"


def test_the_top_module_has_no_other_names():
    with pytest.raises(AttributeError, match="'rsocket_trio' has no attribute 'conect'"):
        rsocket_trio.conect  # noqa: B018 - reading it is the test


FIRST_NAMES_OF_THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import rsocket_trio

names = [name for name in rsocket_trio.__all__ if name != "__version__"]
start = Barrier(24)

def use(number):
    start.wait()
    for name in names[4 * number :] + names[: 4 * number]:
        getattr(rsocket_trio, name)

sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(24) as threads:
    list(threads.map(use, range(24)))
"""


def test_threads_may_use_their_first_names_at_once():
    """Imports in different orders would meet in modules that are not complete."""
    subprocess.run(
        [sys.executable, "-c", FIRST_NAMES_OF_THREADS], check=True, timeout=120, env=environment()
    )


def test_the_modules_of_names_are_attributes():
    """Type checkers believe that they are, also before one of their names was used."""
    program = "import rsocket_trio\nprint(rsocket_trio.errors.Rejected is rsocket_trio.Rejected)"
    run = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        timeout=120,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert run.stdout == "True\n"
