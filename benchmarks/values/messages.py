"""What is sent: one value for each kind of request, and the items of a stream."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any, Final

import attrs

__all__ = [
    "FIELDS",
    "ITEM",
    "VALUES",
    "Blob",
    "Checked",
    "Fields",
    "Item",
    "Line",
    "Order",
    "Refund",
    "Sale",
]


@dataclass
class Line:
    sku: str
    quantity: int
    price: float


@dataclass
class Order:
    id: int
    customer: str
    lines: list[Line]
    note: str | None = None


@dataclass
class Blob:
    name: str
    data: bytes


@dataclass
class Item:
    id: int
    name: str
    price: float


FIELDS: Final = [(f"f{n}", (int, str, float, bool)[n % 4]) for n in range(20)]
"""The names and types of 20 fields."""

Fields: Final = make_dataclass("Fields", FIELDS)


@attrs.define
class Checked:
    """A class that its own code makes: a converter, and a validator."""

    sku: str = attrs.field(converter=str.strip)
    quantity: int = attrs.field(validator=attrs.validators.ge(0))
    price: float = 0.0


@dataclass
class Sale:
    sale: str
    quantity: int


@dataclass
class Refund:
    refund: str
    reason: str


VALUES: Final[dict[str, Any]] = {
    "order": Order(123456, "a customer of ours", [Line(f"sku-{n}", n, 2.5 * n) for n in range(5)]),
    "fields": Fields(*((n, f"text {n}", n + 0.5, True)[n % 4] for n in range(20))),
    "ints": list(range(10_000)),
    "blob": Blob("a name", bytes(range(256)) * 256),
    "checked": [Checked(f"sku-{n}", n, 2.5 * n) for n in range(5)],
    "union": [Sale("sku", n) if n % 2 else Refund("sku", "broken") for n in range(5)],
}
"""By the kind of a request: its value, which is the answer too."""

ITEM: Final = Item(123456, "an item of ours", 2.5)
"""Each item of a stream."""
