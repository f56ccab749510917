"""Comments become docstrings whatever they contain."""

from __future__ import annotations

import ast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rsocket_trio.ttrpc.codegen.docstrings import docstring, literal

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("comment", "lines"),
    [
        ("", ['"""Otherwise."""']),
        ("  \n \n", ['"""Otherwise."""']),
        (" One line. \n", ['"""One line."""']),
        (" One.\n\n   Two.\n", ['"""One.', "", "  Two.", '"""']),
        (' a "b"\n', ['"""a "b\\""""']),
        (" C:\\new\n", ['"""C:\\\\new"""']),
        (" \x1b[31m\u202e\n", ['"""\\x1b[31m\\u202e"""']),
        (" grün\n", ['"""grün"""']),
    ],
)
def test_docstrings(comment: str, lines: list[str]) -> None:
    """Space around the comment goes; what Python or a terminal would obey is escaped."""
    assert docstring(comment, "Otherwise.") == lines


def test_a_deprecated_method() -> None:
    """A line says that it is deprecated."""
    assert docstring(" Old.", "", deprecated=True) == ['"""Old.', "", "Deprecated.", '"""']


@given(TEXTS)
@example('"""')
@example('\\"')
@example('a""""""b')
@example('"\n"')
def test_any_comment_is_one_docstring(comment: str) -> None:
    """Python reads one string, which has the characters of the comment apart from space."""
    tree = ast.parse("\n".join(docstring(comment, "")))
    assert len(tree.body) == 1
    text = ast.literal_eval(tree.body[0].value)
    assert "".join(text.split()) == "".join(comment.split())


@given(TEXTS)
def test_literals(text: str) -> None:
    """Python reads the text again."""
    assert ast.literal_eval(literal(text)) == text
    assert literal(text).isascii()
    assert literal("a") == '"a"'
