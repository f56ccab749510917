"""Fixtures of the interoperability tests: the peers, each in both roles, and the wire between.

A test of a peer that is not installed is skipped by name; with ``INTEROP=required`` in the
environment it fails. ``tests/interop/setup.sh`` installs the peers.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
SUPPORT = "interop_support"


def _load_support() -> None:
    """Make ``support/`` importable, by path: tests are not packages."""
    spec = importlib.util.spec_from_file_location(SUPPORT, HERE / "support/__init__.py")
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[SUPPORT] = package
    spec.loader.exec_module(package)


def _support(module: str) -> ModuleType:
    return importlib.import_module(f"{SUPPORT}.{module}")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(case, ...): left out, by name, for a peer whose fault forbids the case"
    )


_load_support()
STACKS = list(_support("stacks").stacks())
ON_TCP = [stack for stack in STACKS if stack.transport == "tcp"]


@pytest.fixture(scope="session")
def harness():
    """The module ``support/stacks.py``."""
    return _support("stacks")


@pytest.fixture
def wire_to():
    """``async with wire_to(uri) as wire``: see ``support/wire.py``."""
    return _support("wire").wire_to


@pytest.fixture
def served():
    """``async with served(transport) as (uri, responder)``: see ``support/serving.py``."""
    return _support("serving").served


@pytest.fixture
def serving():
    """``async with serving(stack) as (client, responder)``: see ``support/serving.py``."""
    return _support("serving").serving


@pytest.fixture
def site():
    """``async with site(script) as there``: see ``support/site.py``."""
    return _support("site").site


@pytest.fixture(scope="session", params=_support("spring").VERSIONS, ids="spring-boot-{}".format)
def spring_program(request):
    """Spring's program, with Spring Boot 3 or 4."""
    with _support("spring").started(request.param) as program:
        yield program


@pytest.fixture
def using_spring(spring_program):
    """``async with using_spring() as spring``: see ``support/spring.py``."""
    return lambda: _support("spring").using(spring_program)


def _skip_unsupported_cases(request: pytest.FixtureRequest) -> None:
    _support("stacks").require(request.param.package)
    for marker in request.node.iter_markers("needs"):
        for case in marker.args:
            if fault := request.param.left_out.get(case):
                pytest.skip(f"left out: {request.param.package}, {case}: {fault}")


@pytest.fixture(params=STACKS, ids=str)
def stack(request):
    """A peer, over one transport."""
    _skip_unsupported_cases(request)
    return request.param


@pytest.fixture(params=ON_TCP, ids=str)
def tcp_stack(request):
    """A peer over TCP, where its frames can be recorded."""
    _skip_unsupported_cases(request)
    return request.param
