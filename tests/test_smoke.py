"""The part of the suite that runs against the installed wheel, from an empty directory."""

import importlib
import pkgutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files

import pytest

import rsocket_trio
from rsocket_trio import Payload, Router, connect, serve

pytestmark = pytest.mark.smoke


def test_every_module_can_be_imported():
    """This holds with the extras for tests installed; some modules for Spark need theirs."""
    names = [
        module.name
        for module in pkgutil.walk_packages(rsocket_trio.__path__, "rsocket_trio.")
        if not module.name.endswith("__main__")
    ]
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing.append((name, error.name))
    for name, what in missing:
        assert name.startswith("rsocket_trio.spark.")
        assert what in {"pyspark", "pyarrow"}

    assert len(names) > 80


def test_the_distribution_installs_only_its_own_names():
    """A package, modules for Spark and pytest, a command, plugins of protoc and pytest."""
    try:
        installed = distribution("rsocket-trio")
    except PackageNotFoundError:
        pytest.skip("runs from the sources, not installed")
    names = {path.parts[0] for path in installed.files or ()}
    names = {name for name in names if not name.startswith(("_editable", "rsocket_trio-", ".."))}
    modules = {"pyspark_lumberjack.py", "pyspark_rsio.py", "pyspark_rsocket.py"}
    modules |= {"rsocket_trio_tck_plugin.py"}
    assert names - {"__pycache__"} in ({"rsocket_trio", *modules}, set())
    commands = sorted(point.name for point in installed.entry_points)
    assert commands == ["protoc-gen-trio-ttrpc", "rsocket-trio", "rsocket_trio_tck_plugin"]


def test_without_pyspark_the_error_says_how_to_install_it(monkeypatch):
    """The wheel does not need it, and the modules that Spark looks for have no format then."""
    from rsocket_trio.spark import session

    for name in ["pyspark", *(each for each in sys.modules if each.startswith("pyspark."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'rsocket-trio\[spark\]'"):
        session("name")
    for name in ("pyspark_rsocket", "pyspark_lumberjack", "pyspark_rsio"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        assert not hasattr(importlib.import_module(name), "DefaultSource")
        del sys.modules[name]  # The next test needs it with PySpark.


def test_the_package_is_typed():
    """Type checkers find its marker."""
    assert (files(rsocket_trio) / "py.typed").is_file()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:0", "ws://127.0.0.1:0/rsocket"])
async def test_a_server_and_a_client(nursery, address):
    """A decorated handler answers a client, over each transport."""
    router = Router()

    @router.request_response("shout")
    async def shout(text: str) -> str:
        return text.upper()

    server = await nursery.start(serve, router, address)
    async with connect(server.uris[0], data_mime_type="text/plain") as requester:
        reply = await requester.request_response(Payload(b"hello"), route="shout")

    assert reply.data == b"HELLO"
    await server.aclose(grace=1)


def test_the_command_decodes_a_frame():
    """The command line works from the installed package."""
    done = subprocess.run(
        [sys.executable, "-m", "rsocket_trio", "decode", "000000012820706f6e67"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "PAYLOAD" in done.stdout
