"""Annotations taken apart: qualifiers, unions, the fields of classes, type variables.

All of it happens at run time, also for modules with ``from __future__ import annotations``. There
the annotations of a class are text. Python did not understand that text when it made the class, so
the required keys of a TypedDict and the types of a NamedTuple are found here again.
"""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeGuard

import attrs
import msgspec

from .mismatch import Unconvertible

__all__ = [
    "ANY",
    "NONE",
    "OCTETS",
    "PLAIN_TYPES",
    "Field",
    "aliased",
    "annotation_name",
    "bounded_members",
    "class_hints",
    "fields_of",
    "has_fields",
    "is_bound",
    "is_named_tuple",
    "is_typed_dict",
    "members_of",
    "stripped",
    "with_names",
]

NONE: Final = type(None)
ANY: Final = (Any, object)
"""Annotations that allow any value."""
PLAIN_TYPES: Final[frozenset[type]] = frozenset((str, bool, int, float, NONE))
"""The types that every format has values for; no value is of two of them."""
OCTETS: Final = (bytes, bytearray, memoryview)
"""The types of octets."""

_MAX_NAME: Final = 100
_NAME: Final = "rsocket_trio.name"
"""The key in the metadata of a field for its name in data: other libraries have keys there, too."""
_UNIONS: Final = (typing.Union, types.UnionType)
_REQUIRED: Final[Any] = typing.Required
_NOT_REQUIRED: Final[Any] = typing.NotRequired
_QUALIFIERS: Final = (_REQUIRED, _NOT_REQUIRED, typing.Final, typing.ClassVar)

Variables: TypeAlias = "dict[Any, Any]"
"""Type variables, and the types that take their place."""


@attrs.frozen
class Field:
    """One field of a class, a TypedDict or a NamedTuple.

    Attributes:
        key: Its name in data.
        name: Its name in Python.
        argument: Its name for the class's ``__init__``; empty for the tag of a struct.
        annotation: Its type.
        required: There is no default.
        given: The type of the argument, if a converter of the class makes the field of it.
        stored: Instances have it; they have no ``InitVar``, and no tag.
        unset: It may be `msgspec.UNSET`, which is written as nothing.
    """

    key: str
    name: str
    argument: str
    annotation: Any
    required: bool
    given: Any = None
    stored: bool = True
    unset: bool = False

    @property
    def read_as(self) -> Any:
        """The type that its data are converted to."""
        return self.annotation if self.given is None else self.given


def annotation_name(annotation: Any) -> str:
    """Return the name of a type for messages: without modules and notes, cut at 100 characters."""
    annotation = _bare(annotation)
    if annotation in (None, NONE):
        return "None"
    if isinstance(annotation, type) and not typing.get_args(annotation):
        name = annotation.__name__
    else:
        name = re.sub(r"\b[^\W\d][\w.<>]*\.(?=\w)", "", str(annotation))
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}..."


def _bare(annotation: Any) -> Any:
    """Return an annotation without `Annotated`, also in its parts: peers are told the types."""

    def without_notes(part: Any) -> Any:
        is_noted = typing.get_origin(part) is typing.Annotated
        return _bare(typing.get_args(part)[0]) if is_noted else part

    return _rebuilt(annotation, without_notes)


def stripped(annotation: Any) -> Any:
    """Return an annotation without the parts that do not matter for its values.

    These are `Annotated`, `NewType`, type aliases, and qualifiers like `Final` and `Required`. A
    type variable becomes its bound, or `Any`; ``None`` becomes its type.

    Raises:
        Unconvertible: It is text that cannot be resolved.
    """
    return _taken_apart(annotation)[0]


def _taken_apart(annotation: Any) -> tuple[Any, list[msgspec.Meta]]:
    """Return a stripped annotation, and what bounds its values."""
    bounds: list[msgspec.Meta] = []
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated or _is_qualifier(origin):
            annotation, *notes = typing.get_args(annotation)
            bounds += filter(is_bound, notes)
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif isinstance(annotation, typing.TypeVar):
            annotation = _bound_of(annotation)
        elif isinstance(annotation, dataclasses.InitVar):
            annotation = annotation.type
        elif (meant := aliased(annotation)) is not annotation:
            annotation = meant
        else:
            return NONE if annotation is None else annotation, bounds


def is_bound(note: object) -> TypeGuard[msgspec.Meta]:
    """Whether a note of `Annotated` bounds values, and does not only describe them."""
    described = ("title", "description", "examples", "extra", "extra_json_schema")
    return isinstance(note, msgspec.Meta) and any(
        value is not None for key, value, *_ in note.__rich_repr__() if key not in described
    )


def aliased(annotation: Any) -> Any:
    """Return what a type alias or a name stands for, and another annotation as it is."""
    origin = typing.get_origin(annotation)
    if isinstance(annotation, _Named):
        return annotation.resolved()
    if isinstance(annotation, str | typing.ForwardRef):
        name = getattr(annotation, "__forward_arg__", annotation)
        raise Unconvertible(f"{name!r} cannot be resolved at run time")
    if _is_alias(annotation):
        return with_names(annotation.__value__, _names_of(annotation))
    if _is_alias(origin):
        variables = dict(zip(origin.__type_params__, typing.get_args(annotation), strict=False))
        return _substituted(with_names(origin.__value__, _names_of(origin)), variables)
    return annotation


def _is_qualifier(origin: Any) -> bool:
    # By name: Python has ReadOnly since 3.13, and typing_extensions has its own.
    return origin in _QUALIFIERS or getattr(origin, "_name", None) == "ReadOnly"


def _is_alias(annotation: object) -> bool:
    # By name: Python has the class since 3.12, and typing_extensions has its own.
    return type(annotation).__name__ == "TypeAliasType"


def _bound_of(variable: typing.TypeVar) -> Any:
    if variable.__constraints__:
        return typing.Union[variable.__constraints__]  # noqa: UP007 - of a tuple
    return Any if variable.__bound__ is None else variable.__bound__


def members_of(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, flat and stripped; for another type, that type alone.

    Raises:
        Unconvertible: One of them is text that cannot be resolved.
    """
    return tuple([member for member, _ in bounded_members(annotation)])


def bounded_members(annotation: Any) -> list[tuple[Any, list[msgspec.Meta]]]:
    """Return `members_of`, each with its bounds.

    Raises:
        Unconvertible: One of them is text that cannot be resolved, or has different bounds in two
            places; or the union as a whole has bounds.
    """
    plain, bounds = _taken_apart(annotation)
    if typing.get_origin(plain) not in _UNIONS:
        return [(plain, bounds)]
    if bounds:
        raise Unconvertible("a union has bounds: give them to its members")
    members: dict[Any, list[msgspec.Meta]] = {}
    for part in typing.get_args(plain):
        for member, own in bounded_members(part):
            if members.setdefault(member, own) != own:
                raise Unconvertible(f"{annotation_name(member)} has two different bounds")
    return list(members.items())


def has_fields(cls: Any) -> bool:
    """Whether it is an attrs class, a dataclass or a struct of msgspec (no instance of one)."""
    return isinstance(cls, type) and (
        attrs.has(cls) or dataclasses.is_dataclass(cls) or issubclass(cls, msgspec.Struct)
    )


def is_typed_dict(cls: Any) -> bool:
    """Whether it is a TypedDict, of typing or of typing_extensions."""
    return isinstance(cls, type) and issubclass(cls, dict) and hasattr(cls, "__required_keys__")


def is_named_tuple(cls: Any) -> bool:
    """Whether it is a NamedTuple, or made by `collections.namedtuple`."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def fields_of(annotation: Any) -> list[Field]:
    """Return the fields of a class, the keys of a TypedDict or the places of a NamedTuple.

    These are the fields of an attrs class, a dataclass or a struct that its ``__init__`` takes. The
    tag of a struct is the first of its fields. Other types have none.

    Raises:
        Unconvertible: An annotation cannot be resolved, or the name in the metadata is no text.
    """
    cls = typing.get_origin(annotation) or annotation
    if has_fields(cls):
        return _class_fields(cls, class_hints(annotation))
    if is_typed_dict(cls):
        return _typed_dict_fields(cls, annotation)
    if is_named_tuple(cls):
        hints, defaults = class_hints(annotation), getattr(cls, "_field_defaults", {})
        return [
            Field(key, key, key, hints.get(key, Any), key not in defaults) for key in cls._fields
        ]
    return []


def _class_fields(cls: Any, hints: dict[str, Any]) -> list[Field]:
    if issubclass(cls, msgspec.Struct):
        return _struct_fields(cls, hints)
    if attrs.has(cls):
        return [
            Field(
                _key_of(a.name, a.metadata),
                a.name,
                a.alias or a.name,
                hints.get(a.name, Any if a.type is None else a.type),
                a.default is attrs.NOTHING,
                _given_to(a.converter),
            )
            for a in attrs.fields(cls)
            if a.init
        ]
    fields = []
    for name, field in cls.__dataclass_fields__.items():  # with InitVar and ClassVar
        hint = hints[name]
        passed = isinstance(hint, dataclasses.InitVar)
        if field.init and (passed or field in dataclasses.fields(cls)):
            required = field.default is field.default_factory is dataclasses.MISSING
            key = _key_of(name, field.metadata)
            fields.append(Field(key, name, name, hint, required, stored=not passed))
    return fields


def _struct_fields(cls: type[msgspec.Struct], hints: dict[str, Any]) -> list[Field]:
    config = cls.__struct_config__
    if config.array_like:
        raise Unconvertible(f"{cls.__name__} is written as a list: make it no array_like struct")
    fields = []
    if config.tag_field is not None:
        tag: Any = typing.Literal[config.tag]
        fields.append(Field(config.tag_field, "", "", tag, required=False, stored=False))
    for each in msgspec.structs.fields(cls):
        hint, unset = hints[each.name], False
        if typing.get_origin(hint) in _UNIONS and msgspec.UnsetType in typing.get_args(hint):
            unset = True
            others = [part for part in typing.get_args(hint) if part is not msgspec.UnsetType]
            hint = typing.Union[tuple(others)]  # noqa: UP007 - of a tuple
        names = (each.encode_name, each.name, each.name)
        fields.append(Field(*names, hint, each.required, unset=unset))
    return fields


def _key_of(name: str, metadata: Mapping[Any, Any]) -> str:
    """Return the name of a field in data, which its metadata may say."""
    key = metadata.get(_NAME, name)
    if not isinstance(key, str):
        raise Unconvertible(f"{_NAME!r} in the metadata of {name!r} is no text")
    return key


def _given_to(converter: Any) -> Any:
    """Return the annotation of the parameter of an attrs converter, or ``None``."""
    function = getattr(converter, "converter", converter)  # attrs.Converter, or a function
    if not inspect.isroutine(function):
        return None  # a class is the type of the field, as a rule
    try:
        first = next(iter(inspect.signature(function).parameters))
        return typing.get_type_hints(function, include_extras=True).get(first)
    except Exception:  # it is no function of Python's, or its annotations cannot be resolved
        return None


def _typed_dict_fields(cls: Any, annotation: Any) -> list[Field]:
    # ``__required_keys__`` knows the ``total`` of the class that a key comes from. `Required` and
    # `NotRequired` at the key itself take precedence, and it has not seen them if annotations are
    # text.
    variables: Variables = {typing.Self: annotation}
    for bound in _variables(annotation).values():
        variables |= bound
    fields = []
    for name, hint in _resolved(cls, cls.__annotations__).items():
        required = name in cls.__required_keys__
        qualified = hint
        while (origin := typing.get_origin(qualified)) is typing.Annotated or _is_qualifier(origin):
            if origin in (_REQUIRED, _NOT_REQUIRED):
                required = origin is _REQUIRED
            qualified = typing.get_args(qualified)[0]
        fields.append(Field(name, name, name, _substituted(hint, variables), required))
    return fields


def class_hints(annotation: Any) -> dict[str, Any]:
    """Return the annotations of a class and its bases, with types in place of type variables."""
    cls: type = typing.get_origin(annotation) or annotation
    variables = _variables(annotation)
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        own = inspect.get_annotations(base)
        bound = {**variables.get(base, {}), typing.Self: annotation}
        for name, hint in _resolved(base, own).items():
            hints[name] = _substituted(hint, bound)
    return hints


def _resolved(cls: type, annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations of a class, with text resolved."""
    if not annotations:
        return {}
    module = _names_of(cls)
    known = {**vars(builtins), **module}
    # As in the body of the class, but the default of a field does not hide the name of a type.
    names = {name: thing for name, thing in vars(cls).items() if name not in known}
    if cls.__name__ not in known:
        names.setdefault(cls.__name__, cls)
    # Each base is resolved alone: a name may mean something else in its module.
    holder = type(cls.__name__, (), {"__annotations__": annotations, "__module__": cls.__module__})
    try:
        hints = typing.get_type_hints(holder, localns=names, include_extras=True)
    except NameError as error:
        raise Unconvertible(
            f"{cls.__name__} is annotated with {error.name!r}, which cannot be resolved at run "
            "time: import it outside `if TYPE_CHECKING`, and define it at the top of a module"
        ) from error
    return {name: with_names(hint, module) for name, hint in hints.items()}


def _names_of(thing: Any) -> Mapping[str, Any]:
    """Return the names of the module that defines a thing."""
    names: Mapping[str, Any] = getattr(sys.modules.get(thing.__module__), "__dict__", {})
    return names


def _variables(annotation: Any) -> dict[type, Variables]:
    """Return, for a class and each of its bases, the types in place of its type variables."""
    cls = typing.get_origin(annotation) or annotation
    parameters = getattr(cls, "__parameters__", ())
    found: dict[type, Variables] = {
        cls: dict(zip(parameters, typing.get_args(annotation), strict=False))
    }
    for each in cls.__mro__:
        own = found.get(each, {})
        for base in vars(each).get("__orig_bases__", ()):
            origin = typing.get_origin(base)
            if isinstance(origin, type) and origin is not typing.Generic:
                given = [_substituted(argument, own) for argument in typing.get_args(base)]
                of_base = getattr(origin, "__parameters__", ())
                found.setdefault(origin, dict(zip(of_base, given, strict=False)))
    return found


def _substituted(annotation: Any, variables: Variables) -> Any:
    """Return an annotation with types in place of its type variables and of `Self`."""

    def replaced(part: Any) -> Any:
        try:
            return variables.get(part, part)
        except TypeError:  # something unhashable is in it
            return part

    return _rebuilt(annotation, replaced) if variables else annotation


def with_names(annotation: Any, namespace: Mapping[str, Any]) -> Any:
    """Return an annotation whose text is resolved later: for types that contain themselves.

    An example is ``Json = dict[str, "Json"] | str``: the type that Python resolves contains the
    name again.

    Args:
        annotation: As `typing.get_type_hints` gives it.
        namespace: The names of the module where it is written.
    """

    def replaced(part: Any) -> Any:
        if isinstance(part, typing.ForwardRef):
            return _Named(part.__forward_arg__, namespace)
        return _Named(part, namespace) if isinstance(part, str) else part

    return _rebuilt(annotation, replaced)


class _Named:
    """A type by its name in a module."""

    def __init__(self, name: str, namespace: Mapping[str, Any]) -> None:
        self._name = name
        self._namespace = namespace

    def __repr__(self) -> str:
        return self._name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Named):
            return NotImplemented
        return self._name == other._name and self._namespace is other._namespace

    def __hash__(self) -> int:
        return hash(self._name)

    def resolved(self) -> Any:
        """Return the type.

        Raises:
            Unconvertible: The name cannot be resolved.
        """
        holder = type("Holder", (), {"__annotations__": {"value": self._name}})
        try:
            hints = typing.get_type_hints(holder, dict(self._namespace), include_extras=True)
        except Exception as error:  # the text may be any expression
            raise Unconvertible(f"{self._name!r} cannot be resolved at run time") from error
        return with_names(hints["value"], self._namespace)


def _rebuilt(annotation: Any, replaced: Callable[[Any], Any]) -> Any:
    """Return an annotation with some of its parts replaced."""
    other = replaced(annotation)
    if other is not annotation:
        return other
    arguments = typing.get_args(annotation)
    origin: Any = typing.get_origin(annotation)
    if not arguments or origin is typing.Literal:
        return annotation
    if origin is typing.Annotated:
        plain, *notes = arguments
        return typing.Annotated[(_rebuilt(plain, replaced), *notes)]
    done = tuple([_rebuilt(argument, replaced) for argument in arguments])
    if all(one is other for one, other in zip(done, arguments, strict=True)):
        return annotation
    if origin in _UNIONS:
        return typing.Union[done]  # noqa: UP007 - of a tuple
    return origin[done[0] if _is_qualifier(origin) else done]
