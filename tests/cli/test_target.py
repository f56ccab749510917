"""The argument of ``serve``: from its text to an object."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rsocket_trio.cli.exits import USAGE, Failure
from rsocket_trio.cli.target import load_target
from rsocket_trio.responder import Responder

APP = """\
from rsocket_trio.responder import Responder

class App(Responder):
    nested = Responder()

app = App()
router = App()
other = App()
number = 1
async def acceptor(setup, requester):
    return app
async def alone(setup):
    return app
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory to import from; its modules and its path entry are removed afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def _failure(target: str) -> str:
    with pytest.raises(Failure) as caught:
        load_target(target)
    assert caught.value.status == USAGE
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize("name", ["app", "other"])
@pytest.mark.parametrize("where", ["some_app", "some_app.py", "./some_app.py"])
def test_a_module_or_a_file(directory: Path, where: str, name: str) -> None:
    """A module of the working directory is found, and a file."""
    (directory / "some_app.py").write_text(APP)
    found = load_target(f"{where}:{name}")
    assert found is getattr(sys.modules["some_app"], name)


def test_a_file_in_another_directory(directory: Path) -> None:
    """A file may be anywhere, and import its neighbours."""
    elsewhere = directory / "some" / "place"
    elsewhere.mkdir(parents=True)
    (elsewhere / "neighbour_of_app.py").write_text(APP)
    (elsewhere / "main_app.py").write_text("from neighbour_of_app import app as service")
    assert isinstance(load_target("some/place/main_app.py:service"), Responder)
    assert isinstance(load_target(f"{elsewhere}/main_app.py:service"), Responder)


def test_a_module_in_a_package(directory: Path) -> None:
    """A module may be in a package."""
    package = directory / "some_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "service.py").write_text(APP)
    assert isinstance(load_target("some_package.service:app"), Responder)


def test_default_names(directory: Path) -> None:
    """Without a name it is app, then router, else an error that says so."""
    (directory / "has_both.py").write_text(APP)
    assert load_target("has_both.py") is sys.modules["has_both"].app
    (directory / "has_router.py").write_text(APP.replace("app = App()\n", "", 1))
    assert load_target("has_router") is sys.modules["has_router"].router
    (directory / "has_neither.py").write_text("")
    assert "neither 'app' nor 'router'" in _failure("has_neither.py")


def test_a_dotted_name(directory: Path) -> None:
    """A name may go through attributes."""
    (directory / "some_app.py").write_text(APP)
    assert isinstance(load_target("some_app:App.nested"), Responder)


def test_a_function_is_an_acceptor(directory: Path) -> None:
    (directory / "some_app.py").write_text(APP)
    assert load_target("some_app:acceptor") is sys.modules["some_app"].acceptor


def test_a_callable_without_a_signature(directory: Path) -> None:
    """It is accepted as an acceptor."""
    (directory / "builtin_app.py").write_text("app = type\ntake = max\n")
    assert load_target("builtin_app:take") is max


def test_a_file_with_the_name_of_a_loaded_module(directory: Path) -> None:
    """It does not replace that module."""
    (directory / "pytest.py").write_text(APP)
    assert isinstance(load_target("pytest.py"), Responder)
    assert sys.modules["pytest"] is pytest
    assert "pytest_target" in sys.modules


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("absent_module:app", "there is no module named 'absent_module'"),
        ("some_app.absent:app", "there is no module named 'some_app.absent'"),
        ("absent.py", "there is no file 'absent.py'"),
        ("some/where:app", "there is no file 'some/where'"),
        ("data/file:app", "'data/file' is not a Python file"),
        ("some_app:missing", "there is no 'missing' in 'some_app'"),
        ("some_app:app.missing", "there is no 'app.missing' in 'some_app'"),
        ("some_app:App", "'some_app:App' is a class; name an instance of that class"),
        (
            "some_app:alone",
            (
                "'some_app:alone' is not an acceptor function: it must take two arguments, "
                "the setup and the requester"
            ),
        ),
        (
            "some_app:number",
            (
                "'some_app:number' is neither a Responder nor an acceptor function, "
                "but an object of type 'int'"
            ),
        ),
        ("some_app:", "'some_app:' is not MODULE:NAME or FILE.py:NAME"),
        (":app", "':app' is not MODULE:NAME or FILE.py:NAME"),
        ("some_app:1", "'some_app:1' is not MODULE:NAME or FILE.py:NAME"),
        ("", "'' is neither a module name nor the path of a .py file"),
        ("..up:app", "'..up' is neither a module name nor the path of a .py file"),
    ],
)
def test_wrong_targets(directory: Path, target: str, message: str) -> None:
    """A target that cannot be served is an error of one line."""
    (directory / "some_app.py").write_text(APP)
    (directory / "data").mkdir()
    (directory / "data" / "file").touch()
    assert _failure(target) == message


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise ValueError('first\\nsecond')", "ValueError: first"),
        ("raise KeyError", "KeyError"),
        ("import absent_dependency", "ModuleNotFoundError: No module named 'absent_dependency'"),
        ("import sys; sys.exit('no')", "SystemExit: no"),
        ("def", "SyntaxError: invalid syntax (broken_app.py, line 1)"),
    ],
)
@pytest.mark.parametrize("where", ["broken_app", "broken_app.py"])
def test_an_import_that_fails(directory: Path, where: str, source: str, message: str) -> None:
    """An error in the target's import is one line; the exception stays as the cause."""
    (directory / "broken_app.py").write_text(source)
    with pytest.raises(Failure) as caught:
        load_target(where)
    expected = f"cannot import {where!r}: {message} (--verbose shows the traceback)"
    assert caught.value.message == expected
    assert caught.value.__cause__ is not None
    assert "broken_app" not in sys.modules


def test_a_failing_target_as_a_user_sees_it(
    program: Callable[..., subprocess.CompletedProcess[bytes]], tmp_path: Path
) -> None:
    """There is one line and status 2; the traceback only with --verbose."""
    (tmp_path / "broken.py").write_text("\nraise ValueError('boom')\n")
    listen = ("--listen", "tcp://127.0.0.1:0")
    done = program("serve", "broken.py", *listen)
    line = (
        b"rsocket-trio: error: cannot import 'broken.py': ValueError: boom"
        b" (--verbose shows the traceback)\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", line)
    done = program("serve", "broken.py", *listen, "--verbose")
    assert done.returncode == 2
    assert done.stderr.endswith(line)
    assert b'broken.py", line 2' in done.stderr


def test_a_router_with_a_gap(directory: Path) -> None:
    """What its handlers need and nobody provides is a message, and no traceback."""
    (directory / "gap.py").write_text(
        "from typing import Annotated\n"
        "from rsocket_trio import Provided, Router\n"
        "app = Router()\n"
        "@app.request_response('x')\n"
        "async def x(rate: Annotated[float, Provided]) -> float:\n"
        "    return rate\n"
    )
    assert "'gap.py:app' cannot be served: nobody provides float" in _failure("gap.py")
