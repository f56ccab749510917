"""Strategies of hypothesis: annotations, each with its values."""

import enum
import itertools
from collections import OrderedDict, deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import attrs
import msgspec
from hypothesis import strategies as st

from .annotated import Colour


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Ratio(enum.Enum):
    HALF = 0.5
    NONE = None


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


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


@st.composite
def classes(draw, typed):
    fields = draw(st.lists(typed, max_size=3))
    hints = {f"f{number}": annotation for number, (annotation, _) in enumerate(fields)}
    values = {f"f{number}": each for number, (_, each) in enumerate(fields)}
    name = f"Made{next(numbers)}"
    kind = draw(st.sampled_from(["attrs", "dataclass", "dict", "tuple", "struct"]))
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
    elif kind == "struct":
        tag = draw(st.sampled_from([None, name, next(numbers)]))
        forbids = draw(st.booleans())
        made = msgspec.defstruct(name, list(hints.items()), tag=tag, forbid_unknown_fields=forbids)
    elif kind == "attrs":
        made = attrs.make_class(name, {key: attrs.field(type=each) for key, each in hints.items()})
    else:
        made = make_dataclass(name, list(hints.items()))
    return made, st.builds(made, **values)


@st.composite
def containers(draw, typed):
    item, values = draw(typed)
    kind = draw(st.sampled_from([list, tuple, deque, set, frozenset, dict, OrderedDict, Mapping]))
    if kind in (dict, OrderedDict, Mapping):
        key, keys = draw(st.one_of(scalars, unions(scalars)))
        made = st.dictionaries(keys, values, max_size=3)
        return kind[key, item], made if kind is not OrderedDict else made.map(OrderedDict)
    if kind in (set, frozenset):
        item, values = draw(st.one_of(scalars, unions(scalars)))
        return kind[item], st.sets(values, max_size=3).map(kind)
    items = st.lists(values, max_size=3)
    if kind is tuple:
        return tuple[item, ...], items.map(tuple)
    return kind[item], items.map(kind)


typed = st.recursive(
    scalars,
    lambda inner: st.one_of(containers(inner), unions(inner), classes(inner)),
    max_leaves=4,
)
"""Annotations, each with a strategy for its values."""


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
    if isinstance(one, msgspec.Struct) and type(one) is type(other):
        return same(msgspec.structs.asdict(one), msgspec.structs.asdict(other))
    if hasattr(one, "__dict__") and type(one) is type(other) and not isinstance(one, enum.Enum):
        return same(vars(one), vars(other))
    return bool(one == other)
