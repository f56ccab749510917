"""Routes with variables: `Template`, and `Routes`, which finds the handler of a route.

A route has segments, which ``.`` and ``/`` separate. In a template a segment may be a variable,
``{name}``, which is a segment of one character or more; the last one may be ``{name...}``, which is
all the rest, of one character or more. The most specific template wins: at the first segment in
which two differ, text comes before a variable, and a variable before the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from keyword import iskeyword
from typing import TYPE_CHECKING, Final

import attrs

from ..errors import MetadataError
from ..metadata.routing import encode_route

if TYPE_CHECKING:
    from .registered import Registered

__all__ = ["VARIABLE", "Found", "Routes", "Template", "check_prefix"]

VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
"""Splits a template into texts and what stands between braces, by turns."""
_ONE: Final = "."
_REST: Final = ".."
"""Keys for variables in a node. They cannot be segments, as these end at a dot."""


@attrs.frozen
class Template:
    """A route as it is registered, with variables or without.

    Attributes:
        text: The route, as it was written.
        key: The same without the names: two templates with one key match the same routes.
        names: The names of its variables, in order.
    """

    text: str
    key: str
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Read a route.

        Raises:
            ValueError: It cannot be a route; the text says what to change.
        """
        if "{" not in text and "}" not in text:
            return cls(_checked(text), text, ())
        *pieces, end = VARIABLE.split(text)
        names: list[str] = []
        key = ""
        for literal, written in zip(pieces[::2], pieces[1::2], strict=True):
            key += literal
            name = written.removesuffix("...")
            if not name.isidentifier() or iskeyword(name):
                raise _wrong(text, f"{{{written}}} is no variable: write {{name}} or {{name...}}")
            if name in names:
                raise _wrong(text, f"{{{name}}} is there twice: give each variable its own name")
            names.append(name)
            key += "{}" if name == written else "{*}"
        key += end
        bare = key.replace("{*}", "{}")
        if "{" in bare.replace("{}", "") or "}" in bare.replace("{}", ""):
            raise _wrong(text, "a brace begins or ends no variable: write {name} or {name...}")
        if any("{}" in each and each != "{}" for each in re.split(r"[./]", bare)):
            reason = "a variable is a whole segment, between dots or slashes"
            raise _wrong(text, f"{reason}: write for example 'user.{{id}}' or 'user/{{id}}'")
        if "{*}" in key.removesuffix("{*}"):
            raise _wrong(text, "a variable with ... takes the rest of a route, so it is the last")
        _checked(bare.replace("{}", "x"))  # the shortest one that it matches
        return cls(text, key, tuple(names))


def _checked(route: str) -> str:
    """Refuse a route that is too long, or is no UTF-8.

    Raises:
        ValueError: It is refused.
    """
    try:
        encode_route(route)
    except MetadataError as error:
        raise ValueError(str(error)) from None
    return route


def check_prefix(prefix: str) -> None:
    """Refuse a prefix that cannot begin a route.

    Raises:
        TypeError: It is no text.
        ValueError: It is refused.
    """
    if not isinstance(prefix, str):
        raise TypeError(f"a prefix is a str, not {type(prefix).__name__}")
    if "{" in prefix or "}" in prefix:
        if "...}" in prefix:
            raise _wrong(
                prefix, "a variable with ... takes the rest of a route, so no prefix has it"
            )
        Template.parse(prefix)


def _wrong(text: str, reason: str) -> ValueError:
    return ValueError(f"{text!r} cannot be a route: {reason}")


class _Node:
    """The templates that begin with the same segments.

    Attributes:
        children: By segment. One behind a slash begins with the slash.
        end: What is registered for the template that ends here.
    """

    __slots__ = ("children", "end")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.end: Registered | None = None


Found = tuple["Registered", tuple[str, ...]]
"""What is registered for a route, and the values of its variables."""


class Routes:
    """The handlers of one interaction by route; it does not change.

    A route without variables is found by its text. The others are a tree by segments; a way in it
    that leads nowhere is left for the next less specific one. A search never looks at a node twice,
    so it costs at most the number of templates, whatever the route is.
    """

    __slots__ = ("_root", "exact")

    def __init__(self, registered: Iterable[tuple[str | None, Registered]]) -> None:
        self.exact: dict[str | None, Registered] = {}
        self._root: _Node | None = None
        for key, each in registered:
            if each.signature.variables:
                self._root = self._root or _Node()
                node = self._root
                for segment in _segments(key or ""):
                    wanted = segment.replace("{*}", _REST).replace("{}", _ONE)
                    node = node.children.setdefault(wanted, _Node())
                node.end = each
            else:
                self.exact[key] = each

    def find(self, route: str | None) -> Found | None:
        """Return what is registered for a route, with the values of its variables."""
        registered = self.exact.get(route)
        if registered is not None:
            return registered, ()
        if self._root is None or route is None:
            return None
        segments = _segments(route)
        node, at = self._root, 0
        values: tuple[str, ...] = ()
        others: list[tuple[_Node, int, tuple[str, ...]]] = []
        while True:
            if at == len(segments):
                if node.end is not None:
                    return node.end, values
            else:
                segment = segments[at]
                children = node.children
                slash = segment[:1] == "/"
                rest = children.get("/.." if slash else _REST)
                if rest is not None:
                    text = ".".join(segments[at:]).replace("./", "/")[slash:]
                    if text:
                        others.append((rest, len(segments), (*values, text)))
                one = children.get("/." if slash else _ONE)
                if one is not None and (text := segment[1:] if slash else segment):
                    others.append((one, at + 1, (*values, text)))
                literal = children.get(segment)
                if literal is not None:
                    node, at = literal, at + 1
                    continue
            if not others:
                return None
            node, at, values = others.pop()


def _segments(route: str) -> list[str]:
    """Return the segments of a route; those behind a slash begin with the slash."""
    return route.replace("/", "./").split(".")
