"""A Python module for clients that do not have the code of the server: `client_module`.

It declares the handlers of a router as a `typing.Protocol` for `Caller.of`, and the classes of
their arguments and results as dataclasses and the like.
"""

from __future__ import annotations

import dataclasses
import inspect
import keyword
import re
import sys
import typing
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

import attrs
import msgspec

from ..codecs.annotations import (
    ANY,
    NONE,
    Field,
    annotation_name,
    fields_of,
    has_fields,
    is_named_tuple,
    is_typed_dict,
    members_of,
)
from ..codecs.mismatch import Unconvertible
from .declared_calls import not_callable
from .parameters import ARGUMENTS, EMPTY, Parameter, Source, unpacked
from .registered import Registered

__all__ = ["client_module"]

_LITERALS: Final = (bool, int, float, str, bytes, NONE)
_FACTORIES: Final = (list, dict, set, frozenset, tuple)
_STANDARD: Final = sys.stdlib_module_names - {"__main__"}
_ABSENT: Final = object()


def client_module(handlers: Iterable[Registered], name: str) -> str:
    """Return the text of the module; ``name`` is that of the class with the methods.

    What a `Caller` cannot call, such as a handler of payloads, is named in a comment.
    """
    types = _Types({name})
    methods: list[str] = []
    left: list[str] = []
    used: set[str] = set()
    marks: set[str] = set()
    errors: dict[int, type] = {}
    for each in handlers:
        signature = each.signature
        if each.route is None:
            continue
        reason = not_callable(signature)
        if reason is not None:
            left.append(f"# {each.route!r} is not here: {reason}.\n")
            continue
        marks.add(signature.interaction)
        methods.append(_method(each, types, used))
        errors |= each.errors
    named = [_error(code, kind, types) for code, kind in errors.items()]
    if named:
        marks |= {"CustomError", "declaration"}
    decorator = f"@declaration(errors=[{', '.join(named)}])\n" if named else ""
    classes = "".join([f"{each}\n\n" for each in types.written])
    body = "\n".join(methods) or '    """It has no handlers with routes."""\n'
    imports = [
        *(f"import {each}\n" for each in sorted(types.modules)),
        "from typing import Protocol\n",
        *([f"\nfrom rsocket_trio import {', '.join(sorted(marks))}\n"] if marks else []),
    ]
    return (
        '"""Handlers of a server of rsocket_trio, for `Caller.of`; written by a program."""\n\n'
        f"from __future__ import annotations\n\n{''.join(imports)}\n\n{classes}"
        f"{decorator}class {name}(Protocol):\n{body}{''.join(left)}"
    )


def _method(registered: Registered, types: _Types, used: set[str]) -> str:
    signature = registered.signature
    function, _ = unpacked(signature.function)
    name = _free(getattr(function, "__name__", "call"), used)
    given = [each for each in signature.parameters if each.source in ARGUMENTS]
    # Defaults come last among those that are given by position.
    given.sort(key=lambda each: (each.by_keyword, _default(each) is not None))
    parts, is_keyword = ["self"], False
    for each in given:
        if each.by_keyword and not is_keyword:
            is_keyword = True
            parts.append("*")
        written = types.of(each.annotation)
        if each.source is Source.CHANNEL:
            types.modules.add("collections.abc")
            written = f"collections.abc.AsyncIterable[{written}]"
        default = _default(each)
        parts.append(f"{each.name}: {written}" + ("" if default is None else f" = {default}"))
    result = types.of(signature.result) if signature.is_answered else "None"
    keywords = "async def"
    if signature.interaction.is_stream:
        types.modules.add("collections.abc")
        keywords, result = "def", f"collections.abc.AsyncIterator[{result}]"
    doc = registered.doc
    repeated = ", idempotent=True" if registered.idempotent else ""
    text = f"    @{signature.interaction.value}({registered.route!r}{repeated})\n"
    text += f"    {keywords} {name}({', '.join(parts)}) -> {result}:"
    return f"{text} ...\n" if not doc else f"{text}\n        {_quoted(doc)}\n        ...\n"


def _error(code: int, kind: type, types: _Types) -> str:
    """Write a class of errors, and return its name."""
    name = types.free(kind.__name__)
    doc = inspect.cleandoc(kind.__doc__ or "")  # its own, and not that of its base
    text = f"    {_quoted(doc)}\n\n" if doc else ""
    types.written.append(f"class {name}(CustomError):\n{text}    default_code = {code:#x}\n")
    return name


def _free(name: str, used: set[str]) -> str:
    """Return a name that is an identifier and is not used yet."""
    name = re.sub(r"\W+", "_", name).rstrip("_")
    if not name.isidentifier() or keyword.iskeyword(name):
        name = f"_{name}"
    free, number = name, 1
    while free in used:
        number += 1
        free = f"{name}_{number}"
    used.add(free)
    return free


def _default(parameter: Parameter) -> str | None:
    """Return the text of a default. That of data is the server's, so its value does not matter."""
    if parameter.default is EMPTY:
        return None
    return _literal(parameter.default) or ("..." if parameter.source is Source.DATA else None)


def _literal(value: object) -> str | None:
    is_number = type(value) is float and value - value != 0  # infinity and NaN have no literal
    return repr(value) if type(value) in _LITERALS and not is_number else None


def _quoted(doc: str) -> str:
    """Return a docstring as it stands in a method."""
    text = doc.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\n        ")
    return '"""' + re.sub(r"[^\S\n]+$", "", text, flags=re.MULTILINE) + '"""'


class _Types:
    """Writes annotations, and the classes in them.

    Attributes:
        written: The texts of the classes, each behind those that it needs first.
        modules: What has to be imported.
    """

    def __init__(self, used: set[str]) -> None:
        self.written: list[str] = []
        self.modules: set[str] = set()
        self._used = used
        self._names: dict[Any, str] = {}

    def free(self, name: str) -> str:
        """Return a name for one more class."""
        return _free(name, self._used)

    def of(self, annotation: Any) -> str:
        """Return an annotation as text; ``typing.Any`` for what has no text of its own."""
        try:
            members = members_of(annotation)
        except Unconvertible:
            return self._any()
        return " | ".join([self._one(each) for each in members])

    def _any(self) -> str:
        self.modules.add("typing")
        return "typing.Any"

    def _one(self, plain: Any) -> str:
        if plain in ANY:
            return self._any()
        if plain is NONE:
            return "None"
        cls, arguments = typing.get_origin(plain) or plain, typing.get_args(plain)
        if cls is typing.Literal:
            self.modules.add("typing")
            shown = [_literal(each) for each in arguments]
            return f"typing.Literal[{', '.join(map(str, shown))}]" if all(shown) else self._any()
        if not isinstance(cls, type):
            return self._any()
        if cls.__module__.partition(".")[0] in _STANDARD:
            return self._known(cls, arguments)
        if plain not in self._names:
            writer = self._writer(cls)
            if writer is None:
                return self._any()
            name = self._names[plain] = self.free(annotation_name(plain))
            self.written.append(writer(name, plain))
        return self._names[plain]

    def _known(self, cls: type, arguments: tuple[Any, ...]) -> str:
        name = cls.__qualname__
        if cls.__module__ != "builtins":
            self.modules.add(cls.__module__)
            name = f"{cls.__module__}.{name}"
        shown = ["..." if each is ... else self.of(each) for each in arguments]
        return f"{name}[{', '.join(shown)}]" if shown else name

    def _writer(self, cls: type) -> Any:
        if issubclass(cls, Enum):
            return self._enum
        if is_typed_dict(cls):
            return self._typed_dict
        if is_named_tuple(cls):
            return self._named_tuple
        return self._dataclass if has_fields(cls) else None

    def _enum(self, name: str, cls: Any) -> str:
        self.modules.add("enum")
        base = next(each for each in cls.__mro__ if each.__module__ == "enum").__name__
        members = [(key, _literal(each.value)) for key, each in cls.__members__.items()]
        lines = [f"    {key} = {text}\n" for key, text in members if text is not None]
        return f"class {name}(enum.{base}):\n" + ("".join(lines) or "    pass\n")

    def _typed_dict(self, name: str, annotation: Any) -> str:
        self.modules.add("typing")
        items = []
        for each in fields_of(annotation):
            text = self.of(each.annotation)
            needed = text if each.required else f"typing.NotRequired[{text}]"
            items.append(f"{each.key!r}: {needed!r}")
        return f"{name} = typing.TypedDict({name!r}, {{{', '.join(items)}}})\n"

    def _named_tuple(self, name: str, annotation: Any) -> str:
        self.modules.add("typing")
        lines = [f"    {each.name}: {self.of(each.annotation)}\n" for each in fields_of(annotation)]
        return f"class {name}(typing.NamedTuple):\n" + ("".join(lines) or "    pass\n")

    def _dataclass(self, name: str, annotation: Any) -> str:
        self.modules.add("dataclasses")
        cls = typing.get_origin(annotation) or annotation
        lines = []
        used: set[str] = set()
        for each in fields_of(annotation):
            field = _free(each.argument or each.name or each.key, used)
            text = self.of(each.annotation)  # first: an enum of a default has to be there
            options = self._field_options(cls, each)
            if each.key != field:
                options.append(f'metadata={{"rsocket_trio.name": {each.key!r}}}')
            value = f" = dataclasses.field({', '.join(options)})" if options else ""
            lines.append(f"    {field}: {text}{value}\n")
        head = f"@dataclasses.dataclass(frozen=True, kw_only=True)\nclass {name}:\n"
        return head + ("".join(lines) or "    pass\n")

    def _field_options(self, cls: Any, field: Field) -> list[str]:
        if not field.argument:  # the tag of a struct
            (value,) = typing.get_args(field.annotation) or (None,)
            return [f"default={value!r}"]
        default, factory = _defaults(cls, field.name)
        if isinstance(default, Enum) and members_of(type(default))[0] in self._names:
            return [f"default={self._names[type(default)]}.{default.name}"]
        text = _literal(default)
        if text is not None:
            return [f"default={text}"]
        return [f"default_factory={factory.__name__}"] if factory in _FACTORIES else []


def _defaults(cls: Any, name: str) -> tuple[Any, Any]:
    """Return the default of a field, or what makes it; `_ABSENT` for what there is not."""
    if attrs.has(cls):
        default: Any = attrs.fields_dict(cls)[name].default
        factory = getattr(default, "factory", _ABSENT)  # of an attrs.Factory
        return default, factory
    if issubclass(cls, msgspec.Struct):
        of_struct = {each.name: each for each in msgspec.structs.fields(cls)}[name]
        return of_struct.default, of_struct.default_factory
    of_class = {each.name: each for each in dataclasses.fields(cls)}.get(name)
    if of_class is None:  # an InitVar
        return _ABSENT, _ABSENT
    return of_class.default, of_class.default_factory
