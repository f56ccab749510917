"""The ``repr`` of an object shows no secret: a log line or a traceback may have it."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import attrs

import rsocket_trio
from tests.rules.sources import none_of

SECRETS = re.compile(
    r"(^|_)(auth|cookie|credentials|headers|metadata|options|password|principal|secret|token)s?$"
)
"""Names of fields whose values are secrets, or have some."""
HIDE_THEMSELVES = {"Authentication", "BearerAuthentication", "SimpleAuthentication", "Metadata"}
"""Types whose own ``repr`` shows no secret: tests/metadata has their tests."""
NO_SECRETS = {"bool", "int", "float", "Authenticate"}


def test_fields() -> None:
    """A new field with such a name has to say what ``repr`` shows of it."""
    none_of(
        f"{each.__module__}.{each.__name__}.{field.name}: {field.type}"
        for each in _classes()
        for field in attrs.fields(each)
        if SECRETS.search(field.name) and field.repr is True and not _hidden(field.type)
    )


def _hidden(type_: Any) -> bool:
    parts = {part.strip() for part in str(type_).split("|")}
    return parts - {"None"} <= HIDE_THEMSELVES | NO_SECRETS


def _classes() -> Iterator[type[Any]]:
    seen: set[type[Any]] = set()
    for found in pkgutil.walk_packages(rsocket_trio.__path__, "rsocket_trio."):
        if found.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:  # an optional package is missing
            continue
        for value in vars(module).values():
            if isinstance(value, type) and attrs.has(value) and value not in seen:
                seen.add(value)
                if value.__module__.startswith("rsocket_trio"):
                    yield value
