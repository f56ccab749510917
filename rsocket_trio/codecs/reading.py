"""Plain values (dicts, lists, numbers, text) into annotated types, strictly: `Readers`.

A value of the wrong type is an error: ``int("7")`` is not tried, and a text is not a list of
letters. Keys that a class does not know are ignored, so that peers can be updated first.

An annotation is compiled once, into a function. So an annotation that no value can be converted to
is found then, and not with the first request.
"""

from __future__ import annotations

import inspect
import typing
from collections import Counter, OrderedDict, abc, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final

import attrs
import msgspec

from .annotations import (
    Field,
    annotation_name,
    has_fields,
    is_named_tuple,
    is_typed_dict,
    members_of,
    stripped,
)
from .compiling import Bounded, Converters, Kept
from .conventions import Conventions
from .mismatch import Mismatch, Unconvertible, raise_missing
from .readable import (
    ARRAY,
    DICT,
    PLAIN,
    SETS,
    Reader,
    Shape,
    as_it_is,
    check_alike,
    enum,
    floats_of,
    items,
    literal,
    made,
    made_from,
    mapping,
    positions,
    set_of,
    steps_of,
    with_digits,
)
from .unions import choice_of

__all__ = ["Readers", "no_way"]

_FIELDS: Final = """
def read(value):
    if type(value) is not dict and not isinstance(value, Mapping):
        raise Mismatch.of(name, value)
    arguments = {{}}
    key = ""
    try:
        {}
    except Mismatch as error:
        error.within("." + key)
        error.gather(behind(key, value))
        raise
    return arguments
"""
"""The code of the reader of fields, required ones first: it takes half of the time of a loop.
Nothing but their names is put into it, as texts."""
_SEQUENCES: Final = (list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection)
_SETS: Final = (set, abc.MutableSet)
_FROZEN_SETS: Final = (frozenset, abc.Set)
_MAPPINGS: Final[tuple[Any, ...]] = (dict, abc.Mapping, abc.MutableMapping)
_SPECIAL_MAPPINGS: Final[tuple[Any, ...]] = (OrderedDict, defaultdict, Counter)
_BARE_TUPLES: Final[tuple[Any, ...]] = (tuple, typing.Tuple)  # noqa: UP006 - a user may write it


class Readers:
    """Functions that read plain values, by annotation.

    Args:
        leaves: How types without parts are read; `int`, `str`, `float`, `bool` and `None` are
            known already.
        conventions: The names of fields, and what enums are read from.
        key: How keys annotated `int` are read in a format whose keys are text.
        exact: Floats come as `Digits`.
    """

    def __init__(
        self,
        leaves: Mapping[type, Shape],
        conventions: Conventions,
        key: Shape | None = None,
        *,
        exact: bool = False,
    ) -> None:
        self.leaves = {**PLAIN, **leaves}
        self.conventions = conventions
        self.key = key
        self.exact = exact
        self.anything = Shape(floats_of if exact else as_it_is, frozenset())
        self._kept = Kept(self._compiled)

    def _compiled(self, annotation: Any) -> tuple[Shape, frozenset[type]]:
        compiler = _Compiler(self)
        return compiler.whole(annotation), frozenset(compiler.leaves)

    def reader(self, annotation: Any) -> Reader:
        """Return a function that makes a plain value one of the annotated type.

        The function raises `Mismatch` for a value of another type. It also raises a `StreamError`
        that the constructor of a class of the application raises, and `RecursionError` for values
        that are too deep.

        Raises:
            Unconvertible: No value can be converted to that type.
        """
        return self._kept.of(annotation)[0].read

    def takes(self, annotation: Any) -> frozenset[type]:
        """Return the types of the plain values that `reader` may accept; none if it may be any.

        Raises:
            Unconvertible: No value can be converted to that type.
        """
        shape, _ = self._kept.of(annotation)
        for member in members_of(annotation):
            cls = typing.get_origin(member) or member
            if self.conventions.models.has(cls) or _is_enum(cls):
                return frozenset()  # code of the application may accept more than it says
        return shape.takes

    def reads(self, leaf: type, annotation: Any) -> bool:
        """Return whether a type without parts is in an annotation; `object` is any value."""
        return leaf in self._kept.of(annotation)[1]


class _Compiler(Converters[Shape]):
    """Compiles one annotation, with all the types it is made of."""

    def __init__(self, readers: Readers) -> None:
        super().__init__()
        self._readers = readers
        self.leaves: set[type] = set()

    def _reference(self, annotation: Any, whole: list[Shape]) -> Shape:
        return Shape(lambda value: whole[0].read(value), _taken_by(annotation))

    @property
    def _anything(self) -> Shape:
        self.leaves.add(object)
        return self._readers.anything

    def _union(self, members: Bounded, name: str) -> Shape:
        return choice_of(name, self._members(members), self._readers.conventions)

    def _checked(self, form: Shape, check: Callable[[Any], None]) -> Shape:
        read_any = form.read

        def read(value: Any) -> Any:
            done = read_any(value)
            check(done)
            return done

        return attrs.evolve(form, read=read, plain=frozenset())

    def _of(self, plain: Any, cls: Any, name: str) -> Shape:
        conventions = self._readers.conventions
        if cls is typing.Literal:
            return self._with_digits(literal(name, typing.get_args(plain), conventions))
        if not isinstance(cls, type):
            raise no_way(plain)
        model = conventions.models.reader_of(plain)
        if model is not None:
            return self._of_model(*model)
        if _is_enum(cls):
            return self._with_digits(enum(cls, conventions))
        if has_fields(cls):
            return self._class(plain, cls, name)
        if is_typed_dict(cls):
            return Shape(self._fields(conventions.fields(plain), name), DICT)
        if is_named_tuple(cls):
            return self._named_tuple(plain, cls, name)
        return self._leaf(cls) or self._container(plain, cls, typing.get_args(plain), name)

    def _of_model(self, read: Reader, takes: frozenset[type]) -> Shape:
        if self._readers.exact:
            return Shape(lambda value: read(floats_of(value)), takes)
        return Shape(read, takes)

    def _leaf(self, cls: type) -> Shape | None:
        leaves = self._readers.leaves
        self.leaves.add(cls)
        if cls in leaves:
            return self._with_digits(leaves[cls])
        base = next((base for base in (str, int, float, bytes) if issubclass(cls, base)), None)
        if base is None or base not in leaves:
            return None
        return made_from(cls, self._with_digits(leaves[base]))

    def _with_digits(self, shape: Shape) -> Shape:
        return with_digits(shape) if self._readers.exact else shape

    def _container(self, plain: Any, cls: Any, arguments: tuple[Any, ...], name: str) -> Shape:
        if cls is tuple:
            return self._tuple(plain, arguments, name)
        if cls in _MAPPINGS or cls in _SPECIAL_MAPPINGS:
            return self._mapping(cls, arguments, name)
        if cls in _SEQUENCES or cls is deque:
            return items(self._part("[]", arguments).read, name, deque if cls is deque else list)
        if cls in _SETS or cls in _FROZEN_SETS:
            make = set_of(set if cls in _SETS else frozenset, name, _check_of(arguments))
            return items(self._part("[]", arguments).read, name, make, SETS)
        raise no_way(plain)

    def _tuple(self, plain: Any, arguments: tuple[Any, ...], name: str) -> Shape:
        if arguments[-1:] == (...,) or plain in _BARE_TUPLES:
            return items(self._part("[]", arguments).read, name, tuple)
        if any(_is_unpacked(argument) for argument in arguments):
            raise no_way(plain)
        parts = [
            (step, self._part(step, (argument,)).read)
            for step, argument in zip(steps_of(arguments), arguments, strict=True)
        ]
        return positions(parts, len(parts), name, tuple)

    def _mapping(self, cls: Any, arguments: tuple[Any, ...], name: str) -> Shape:
        values = (int,) if cls is Counter and arguments else arguments[1:]
        check = _check_of(arguments)
        read_key = self._key(arguments)
        make: Callable[[Any], Any] = dict
        if cls in (OrderedDict, Counter):
            make = cls
        elif cls is defaultdict:
            factory = typing.get_origin(values[0]) or values[0] if values else None
            make = partial(defaultdict, factory if isinstance(factory, type) else None)
        return mapping(read_key, self._part("[value]", values).read, name, make, check)

    def _key(self, arguments: tuple[Any, ...]) -> Reader:
        shape = self._part("[key]", arguments)
        read, int_key = shape.read, self._readers.key
        if not arguments or int_key is None:
            return read
        kinds = shape.takes - shape.spare
        if kinds <= {str}:
            return read
        if kinds == {int}:
            read_int = int_key.read
            return lambda key: read(read_int(key))
        name = annotation_name(stripped(arguments[0]))
        raise Unconvertible(f"keys are text, and {name} is not read from text alone")

    def _class(self, plain: Any, cls: Any, name: str) -> Shape:
        fields = self._readers.conventions.fields(plain)
        _check_constructor(cls, {field.argument for field in fields})
        read = self._fields(fields, name)
        if issubclass(cls, msgspec.Struct):
            read = _of_struct(read, cls, {field.key for field in fields})
        keys = {field.name: field.key for field in fields}
        return Shape(lambda value: made(cls, (), read(value), keys), DICT)

    def _named_tuple(self, plain: Any, cls: Any, name: str) -> Shape:
        fields = self._readers.conventions.fields(plain)
        steps = [f".{field.key}" for field in fields]
        parts = [
            (step, self._part(step, (field.annotation,)).read)
            for step, field in zip(steps, fields, strict=True)
        ]
        required = sum([field.required for field in fields])
        return positions(parts, required, name, lambda values: made(cls, values, {}))

    def _fields(self, fields: list[Field], name: str) -> Reader:
        names: dict[str, Any] = {
            "Mismatch": Mismatch,
            "Mapping": Mapping,
            "name": name,
            "raise_missing": raise_missing,
        }
        lines: list[str] = []
        parts: list[tuple[str, Reader, str | None]] = []
        for number, field in enumerate(sorted(fields, key=lambda field: not field.required)):
            shape = self._part(f".{field.key}", (field.read_as,))
            expected = annotation_name(stripped(field.read_as)) if field.required else None
            parts.append((field.key, shape.read, expected))
            names |= {f"read{number}": shape.read, f"plain{number}": shape.plain}
            is_plain = f"type(part) in plain{number}"
            if len(shape.plain) == 1:
                [names[f"plain{number}"]] = shape.plain
                is_plain = f"type(part) is plain{number}"
            key, missing = repr(field.key), "pass"
            if field.required:
                names[f"expected{number}"] = expected
                missing = f"raise_missing(expected{number})"
            lines += [
                f"key = {key}",
                f"if {key} in value:",
                f"    part = value[{key}]",
                f"    arguments[{field.argument!r}] = part if {is_plain} else read{number}(part)",
                f"else: {missing}",
            ]

        def behind(
            last: str, value: Mapping[str, Any]
        ) -> Iterator[tuple[str, Callable[[Any], Any], Any]]:
            keys = [key for key, *_ in parts]
            for key, read_field, expected in parts[keys.index(last) + 1 :]:
                if key in value:
                    yield f".{key}", read_field, value[key]
                elif expected is not None:
                    yield f".{key}", raise_missing, expected

        names["behind"] = behind
        exec(_FIELDS.format("\n        ".join(lines or ["pass"])), names)
        read: Reader = names["read"]
        return read


def _of_struct(read_fields: Reader, cls: Any, known: set[str]) -> Reader:
    """Return a reader of the arguments of a struct: its tag is none, and all keys may count."""
    forbids = cls.__struct_config__.forbid_unknown_fields

    def read(value: Any) -> Any:
        arguments = read_fields(value)
        arguments.pop("", None)
        if forbids and not known.issuperset(value):
            raise Mismatch(f"expected {cls.__name__}, got a key that it does not know")
        return arguments

    return read


def no_way(annotation: Any) -> Unconvertible:
    """Return the error for an annotation that no format has values for."""
    name = annotation_name(annotation)
    if isinstance(annotation, type):
        return Unconvertible(
            f"{name} is not a type that data can be converted to: make it an attrs class, "
            "a dataclass, a TypedDict or a NamedTuple, or register it in Codecs(types=...)"
        )
    return Unconvertible(f"{name} is not a type that data can be converted to")


def _taken_by(annotation: Any) -> frozenset[type]:
    """Return the plain types for a class or a container that is not compiled yet."""
    plain = stripped(annotation)
    cls = typing.get_origin(plain) or plain
    if has_fields(cls) or is_typed_dict(cls) or cls in (*_MAPPINGS, *_SPECIAL_MAPPINGS):
        return DICT
    return frozenset(SETS if cls in _SETS + _FROZEN_SETS else ARRAY)


def _check_of(arguments: tuple[Any, ...]) -> Callable[[Collection[Hashable]], None] | None:
    """Return the check of the items of a set or the keys of a mapping, or ``None``.

    Raises:
        Unconvertible: They have no hash.
    """
    plain = stripped(arguments[0]) if arguments else Any
    cls = typing.get_origin(plain) or plain
    if isinstance(cls, type) and cls.__hash__ is None:
        raise Unconvertible(f"{annotation_name(plain)} cannot be in a set, nor be a key")
    return None if plain in (str, bytes) else check_alike  # their hashes cannot be chosen


def _is_enum(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, Enum)


def _is_unpacked(annotation: Any) -> bool:
    unpacked = getattr(annotation, "__unpacked__", False)
    return bool(unpacked) or typing.get_origin(annotation) is typing.Unpack


def _check_constructor(cls: Any, arguments: set[str]) -> None:
    try:
        parameters = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):
        return
    for parameter in parameters:
        if (
            parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            and parameter.name not in arguments
        ):
            raise Unconvertible(
                f"{cls.__name__} cannot be made of its fields: its constructor needs "
                f"{parameter.name!r}, which is not a field"
            )
