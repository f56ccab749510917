"""A package of many modules has a map in `__init__.py`: one line for each module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.rules.sources import ROOT, none_of, text_of

MANY = 10
"""A package with more modules than this needs a map."""


def modules_of(package: Path) -> list[str]:
    """The modules and packages in a package."""
    return sorted(
        path.stem
        for path in package.iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
    )


def map_of(docstring: str) -> list[tuple[str, str]]:
    """The (name, purpose) of each line of a map."""
    lines = re.findall(r"^- ``(\w+)``: (.+(?:\n  .+)*)", docstring, re.MULTILINE)
    return [(name, " ".join(text.split())) for name, text in lines]


# The package itself is ordered in layers instead, which test_layers checks.
PACKAGES = [
    path.parent
    for path in sorted(ROOT.glob("*/**/__init__.py"))
    if len(modules_of(path.parent)) > MANY
]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_map_names_exactly_the_modules(package):
    """The map has each module once, no others, and a purpose for each."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    entries = map_of(docstring)
    assert sorted(name for name, _ in entries) == modules_of(package)
    assert all(10 <= len(text) <= 90 for _, text in entries)
    assert docstring.count("\n- ") == len(entries), "a line of the map cannot be read"
    # The pages of the documentation leave out the map by these words.
    assert docstring.count("The modules, in reading order") == 1


def test_there_are_packages_with_maps():
    """A glob that finds no package would check nothing."""
    assert {path.name for path in PACKAGES} >= {"connection", "protocol", "transports"}


def answers() -> list[str]:
    """The places in the code that the section "Where is ...?" of docs/design.md names."""
    design = (Path(__file__).parents[2] / "docs" / "design.md").read_text(encoding="utf-8")
    section = design.partition("## Where is ...?")[2].partition("\n## ")[0]
    return re.findall(r"`([\w/]+\.py(?:::\w+)?)`", section)


def exists(place: str) -> bool:
    """Return whether a module exists, and has a class or function of the name."""
    path, _, name = place.partition("::")
    if not (ROOT / path).is_file():
        return False
    definition = rf"^ *(class|def|async def) {name}\b"
    return not name or bool(re.search(definition, text_of(Path(path)), re.MULTILINE))


def test_the_answers_name_existing_code():
    """Each module exists, and has a class or function of the name."""
    none_of(place for place in answers() if not exists(place))


def test_there_are_answers():
    """A section that is not found would check nothing."""
    assert len(answers()) > 30
