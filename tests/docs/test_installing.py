"""The installation steps of the pages work: there is no release yet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "examples/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FROM_A_CHECKOUT = {".", "-e .", "'.[spark]'", "'.[test]'", "'.[ttrpc]'"} | {
    "'.[metrics]'",
    "'.[otel]'",
    "--target packages .",
}
OF_OTHERS = {"grpcio-tools", "trustme", "venv-pack", "--no-cache-dir -r requirements.txt"} | {
    "'pyspark[connect]'",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_install_from_a_checkout(page):
    """Other packages may be installed by name."""
    for what in re.findall(r"pip install ([^`\n)]+)", page.read_text(encoding="utf-8")):
        assert what.strip() in FROM_A_CHECKOUT | OF_OTHERS


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_the_first_pages_explain_the_installation(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "There is no release yet" in text
    assert "pip install .\n" in text
