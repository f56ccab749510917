"""Strategies of hypothesis: annotations, each with its values; and how tests draw from them."""

import enum
import itertools
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import deepcopy
from dataclasses import MISSING, dataclass, field, is_dataclass, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import partial
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import attrs
import msgspec
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st
from typing_extensions import TypeAliasType

from .annotated import Colour, Level, Name, Rights


class Ratio(enum.Enum):
    HALF = 0.5
    NONE = None


class Word(enum.StrEnum):
    A = "a"
    LONG = "a long one"
    ALIAS = "a"


class Mixed(enum.Enum):
    ONE = 1
    TEXT = "1"
    PAIR = (1, "a")


class Amount(int):
    pass


zones = st.sampled_from(
    [None, UTC, timezone(timedelta(hours=-5, minutes=-30)), timezone(timedelta(seconds=30))]
)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    float: st.floats(),
    str: st.text(st.characters(exclude_categories=()), max_size=6)
    | st.sampled_from(["red", "2024-05-06", "1", "null", "a", str(UUID(int=5))]),
    bool: st.booleans(),
    None: st.none(),
    bytes: st.binary(max_size=6) | st.just(UUID(int=5).bytes),
    datetime: st.datetimes(timezones=zones),
    date: st.dates(),
    time: st.times() | st.times(timezones=st.just(UTC)),
    timedelta: st.timedeltas(),
    Decimal: st.decimals(allow_nan=False) | st.just(Decimal("NaN")),
    UUID: st.uuids() | st.just(UUID(int=5)),
    Fraction: st.fractions(),
    Annotated[int, msgspec.Meta(ge=0)]: st.integers(),
    Annotated[str, msgspec.Meta(max_length=3)]: st.text(max_size=6),
    Annotated[float, msgspec.Meta(gt=0.5, multiple_of=0.5)]: st.floats(),
    IPv4Address: st.ip_addresses(v=4),
    IPv6Network: st.ip_addresses(v=6).map(IPv6Network),
    Name: st.builds(Name, st.text(max_size=3)),
    Amount: st.builds(Amount, st.integers()),
    Word: st.sampled_from(Word),
    Mixed: st.sampled_from(Mixed),
    Literal[Colour.RED, Level.LOW, "green"]: st.sampled_from([Colour.RED, Level.LOW, "green"]),
    Literal[True, 0]: st.sampled_from([True, 0]),
    Path: st.sampled_from([Path("a/b"), Path("red"), Path("1")]),
    Colour: st.sampled_from(Colour),
    Level: st.sampled_from(Level),
    Ratio: st.sampled_from(Ratio),
    Rights: st.sampled_from([*Rights, Rights.READ | Rights.WRITE, Rights(0)]),
    Literal["a", 1]: st.sampled_from(["a", 1]),
    (Literal["red"] | None): st.sampled_from(["red", None]),
}
scalars = st.sampled_from(list(SCALARS.items()))


@st.composite
def unions(draw, typed):
    members = draw(st.lists(typed, min_size=2, max_size=3))
    annotation = members[0][0]
    for other, _ in members[1:]:
        annotation = annotation | (type(None) if other is None else other)
    return annotation, st.one_of([values for _, values in members])


numbers = itertools.count()
Item = TypeVar("Item")


def optionally(draw, hints, values):
    """Draw which fields have defaults: the last ones, as a positional argument has to."""
    first = draw(st.integers(0, len(hints)))
    return {name: draw(values[name]) for name in list(hints)[first:]}


def made_by_attrs(draw, name, hints, values, bases):
    """Private names, aliases, converters, validators, and fields that no caller sets."""
    fields, arguments = {}, {}
    for key, hint in hints.items():
        options = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "validator": st.just(lambda *_: None),
                    "converter": st.just(lambda value: value),
                    "alias": st.just(f"{key}_given"),
                    "metadata": st.just({"name": f"{key}-named"}),
                    "kw_only": st.just(True),
                },
            )
        )
        own = draw(st.sampled_from([key, f"_{key}"]))
        fields[own] = attrs.field(type=hint, **options)
        arguments[options.get("alias", key)] = values[key]
    if not bases and draw(st.booleans()):  # attrs loses it below a frozen base with slots
        fields["counted"] = attrs.field(type=int, init=False, default=7)
    options = {key: draw(st.booleans()) for key in ("slots", "frozen", "cache_hash")}
    options["unsafe_hash"] = options["cache_hash"]
    if any(
        not each.__attrs_props__.is_frozen for each in bases if hasattr(each, "__attrs_props__")
    ):
        options["frozen"] = False
    return attrs.make_class(name, fields, bases=bases, **options), arguments


def made_as_dataclass(draw, name, hints, values, bases):
    """Defaults, keyword arguments, slots, and fields that no caller sets."""
    options = {key: draw(st.booleans()) for key in ("slots", "kw_only", "unsafe_hash")}
    default = optionally(draw, hints, values) if not bases or options["kw_only"] else {}
    fields = [
        (
            key,
            hint,
            field(
                metadata=draw(st.sampled_from([{}, {"name": f"{key}-named"}])),
                **({"default_factory": partial(deepcopy, default[key])} if key in default else {}),
            ),
        )
        for key, hint in hints.items()
    ]
    if draw(st.booleans()):
        fields.append(("counted", int, field(init=False, default=7)))
    return make_dataclass(name, fields, bases=bases, **options), values


def made_as_struct(draw, name, hints, values, bases):
    """Tags, names in camel case, and fields that may be unset."""
    fields = []
    for key, hint in hints.items():
        if draw(st.booleans()):
            fields.append((key, hint | msgspec.UnsetType, msgspec.UNSET))
            values = {**values, key: values[key] | st.just(msgspec.UNSET)}
        else:
            fields.append((key, hint))
    options = {
        "tag": draw(st.sampled_from([None, name, next(numbers)])),
        "forbid_unknown_fields": draw(st.booleans()),
        "rename": draw(st.sampled_from([None, "camel"])),
        "frozen": draw(st.booleans()),
    }
    return msgspec.defstruct(name, fields, bases=bases, kw_only=True, **options), values


MAKERS = {"attrs": made_by_attrs, "dataclass": made_as_dataclass, "struct": made_as_struct}


@st.composite
def classes(draw, typed):
    """Classes of all kinds; some have a base, a type variable, or themselves within."""
    fields = draw(st.lists(typed, max_size=3))
    hints = {f"f{number}_x": _class_of(annotation) for number, (annotation, _) in enumerate(fields)}
    values = {f"f{number}_x": each for number, (_, each) in enumerate(fields)}
    name = f"Made{next(numbers)}"
    kind = draw(st.sampled_from([*MAKERS, "dict", "tuple"]))
    made: Any
    if kind == "dict":
        optional = draw(st.sets(st.sampled_from(sorted(values)))) if values else set()
        made = TypedDict(
            name,
            {key: NotRequired[kind] if key in optional else kind for key, kind in hints.items()},
        )
        required = {key: each for key, each in values.items() if key not in optional}
        return made, st.fixed_dictionaries(
            required, optional={key: values[key] for key in optional}
        )
    if kind == "tuple":
        made = NamedTuple(name, list(hints.items()))
        return made, st.builds(made, **values)
    base: tuple[type, ...] = ()
    arguments: dict[str, Any] = {}
    if draw(st.booleans()):
        base_hint, base_values = draw(typed)
        of_base, arguments = MAKERS[kind](
            draw, f"Base{name}", {"base_x": _class_of(base_hint)}, {"base_x": base_values}, ()
        )
        if kind == "dataclass" and is_dataclass(of_base):  # a default may precede none
            assume(
                all(
                    each.default_factory is MISSING
                    for each in of_base.__dataclass_fields__.values()
                )
            )
            assume("counted" not in of_base.__dataclass_fields__)
        base = (of_base,)
    made, more = MAKERS[kind](draw, name, hints, values, base)
    return made, st.builds(made, **{**arguments, **more})


def _class_of(annotation):
    return type(None) if annotation is None else annotation


@attrs.frozen
class Frozen(Generic[Item]):
    item: Item
    others: "tuple[Frozen[Item], ...]" = ()


@dataclass
class Chain(Generic[Item]):
    item: Item
    more: "Chain[Item] | None" = None
    by_name: "dict[str, Chain[Item]]" = field(default_factory=dict)


@st.composite
def generics(draw, typed):
    """Generic classes that contain themselves."""
    annotation, values = draw(typed)
    annotation = _class_of(annotation)
    if draw(st.booleans()):
        one = st.builds(Frozen, values)
        return Frozen[annotation], st.builds(Frozen, values, st.lists(one, max_size=2).map(tuple))
    one = st.builds(Chain, values)
    return (
        Chain[annotation],
        st.builds(
            Chain, values, st.none() | one, st.dictionaries(st.text(max_size=2), one, max_size=2)
        ),
    )


@st.composite
def named(draw, typed):
    """Types with another name, and with notes."""
    annotation, values = draw(typed)
    annotation = _class_of(annotation)
    name = f"Named{next(numbers)}"
    kind = draw(st.sampled_from(["new", "note", "alias"]))
    if kind == "new":
        return NewType(name, annotation), values
    if kind == "note":
        return Annotated[annotation, "a note"], values
    return TypeAliasType(name, annotation), values


@st.composite
def containers(draw, typed):
    item, values = draw(typed)
    item = _class_of(item)
    kinds = [list, tuple, deque, set, frozenset, dict, OrderedDict, defaultdict, Mapping, Sequence]
    kind = draw(st.sampled_from(kinds))
    if kind in (dict, OrderedDict, defaultdict, Mapping):
        key, keys = draw(st.one_of(scalars, unions(scalars), named(scalars)))
        made = st.dictionaries(keys, values, max_size=3)
        if kind is defaultdict:
            return kind[key, item], made.map(lambda found: defaultdict(None, found))
        return kind[key, item], made if kind is not OrderedDict else made.map(OrderedDict)
    if kind in (set, frozenset):
        item, values = draw(st.one_of(scalars, unions(scalars)))
        return kind[item], st.sets(values, max_size=3).map(kind)
    items = st.lists(values, max_size=3)
    if kind is Sequence:
        return kind[item], items
    if kind is tuple and draw(st.booleans()):
        others = draw(st.lists(typed, max_size=2))
        arguments = tuple([_class_of(annotation) for annotation, _ in others])
        return tuple[arguments], st.tuples(*[each for _, each in others])
    if kind is tuple:
        return tuple[item, ...], items.map(tuple)
    return kind[item], items.map(kind)


typed = st.recursive(
    scalars,
    lambda inner: st.one_of(
        containers(inner), unions(inner), classes(inner), generics(inner), named(inner)
    ),
    max_leaves=4,
)
"""Annotations, each with a strategy for its values."""


def random_of(number: int | None) -> random.Random:
    """A generator with this seed, or with a fresh one; the failure of a test shows it."""
    number = random.randrange(2**32) if number is None else number
    print("seed", number)
    return random.Random(number)


def drawn(check: Callable[[Any], None], number: int | None, examples: int) -> None:
    """Call a function with data of hypothesis many times, with a seed as in `random_of`."""

    @seed(random_of(number).randrange(2**32))
    @settings(
        max_examples=examples,
        suppress_health_check=list(HealthCheck),
        deadline=None,
        database=None,
    )
    @given(st.data())
    def run(data: Any) -> None:
        check(data)

    run()


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal; NaN is what it is, and True is not 1."""
    if isinstance(one, Decimal) and isinstance(other, Decimal) and one.is_nan():
        return one.is_nan() == other.is_nan()
    if isinstance(one, float) and one != one:
        return other != other
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, AbstractSet) and isinstance(other, AbstractSet):
        numbers = [{each for each in each_set if each == each} for each_set in (one, other)]
        return len(one) == len(other) and numbers[0] == numbers[1]
    if isinstance(one, list | tuple | deque) and type(one) is type(other):
        return len(one) == len(other) and all(map(same, one, other))
    marks = ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__")
    if type(one) is type(other) and any(hasattr(one, mark) for mark in marks):
        names = [getattr(each, "name", each) for mark in marks for each in getattr(one, mark, ())]
        states = [getattr(each, "__dict__", {}).keys() for each in (one, other)]
        return states[0] == states[1] and all(
            same(getattr(one, name), getattr(other, name)) for name in names
        )
    if hasattr(one, "__dict__") and type(one) is type(other) and not isinstance(one, enum.Enum):
        return same(vars(one), vars(other))
    return bool(one == other)
