"""Fixtures of the interoperability tests: the peers, each in both roles, and the wire between.

A peer that is not installed is skipped by name; with ``INTEROP=required`` in the environment that
is a failure. ``tests/interop/setup.sh`` installs them.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent


def _load(name: str) -> ModuleType:
    """A helper module of this directory: there is no package to import it from."""
    spec = importlib.util.spec_from_file_location(f"interop_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


harness_module = _load("harness")
wire_module = _load("wire")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(case, ...): left out, by name, for a peer whose fault forbids the case"
    )


STACKS = list(harness_module.stacks())
ON_TCP = [stack for stack in STACKS if stack.transport == "tcp"]


@pytest.fixture(scope="session")
def harness():
    """The module ``harness.py``."""
    return harness_module


@pytest.fixture
def wire_to():
    """``async with wire_to(uri) as wire``: see ``wire.py``."""
    return wire_module.wire_to


@pytest.fixture
def served():
    """``async with served(transport) as (uri, responder)``: see ``serving.py``."""
    return _load("serving").served


@pytest.fixture
def serving():
    """``async with serving(stack) as (client, responder)``: see ``serving.py``."""
    return _load("serving").serving


def _skip_what_it_cannot(request: pytest.FixtureRequest) -> None:
    harness_module.require(request.param.package)
    for marker in request.node.iter_markers("needs"):
        for case in marker.args:
            if fault := request.param.left_out.get(case):
                pytest.skip(f"left out: {request.param.package}, {case}: {fault}")


@pytest.fixture(params=STACKS, ids=str)
def stack(request):
    """A peer, over one transport."""
    _skip_what_it_cannot(request)
    return request.param


@pytest.fixture(params=ON_TCP, ids=str)
def tcp_stack(request):
    """A peer over TCP, where its frames can be recorded."""
    _skip_what_it_cannot(request)
    return request.param
