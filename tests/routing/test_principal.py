"""A parameter that is marked as the principal never gets data of the peer."""

from __future__ import annotations

import json  # noqa: F401 - a name in an annotation
from functools import partial
from typing import Annotated, Any, NamedTuple, NewType, Optional, TypedDict, Union

import attrs
import pytest
import typing_extensions

from rsocket_trio import Metadata, Payload, Principal, Router
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.testing import connected_pair

Marked = Annotated[str, Principal]
Alias = typing_extensions.TypeAliasType("Alias", Annotated[str, Principal])
Nullable = typing_extensions.TypeAliasType("Nullable", Annotated[str | None, Principal()])
OfAlias = typing_extensions.TypeAliasType("OfAlias", Alias)
OfPart = typing_extensions.TypeAliasType("OfPart", Alias | None)
New = NewType("New", Annotated[str, Principal])  # type: ignore[valid-newtype]
Tree = list["Tree"]  # type: ignore[misc]
Deep = list[Union["Deep", Annotated[str, Principal]]]  # type: ignore[misc]


@attrs.frozen
class Order:
    user: Annotated[str, Principal]


class OrderDict(TypedDict):
    orders: list[Order]


class OrderTuple(NamedTuple):
    order: Marked


async def authenticate(auth: object, facts: object) -> str:
    return "ada"


def registered(annotation: Any) -> Router:
    router = Router(authenticate=authenticate)

    async def who(user: str) -> str:
        return user

    who.__annotations__ = {"user": annotation, "return": str}
    router.request_response("who")(who)
    return router


@pytest.mark.parametrize("annotation", [Marked, Alias, Nullable, OfAlias, Annotated[Marked, 1]])
async def test_marks_behind_aliases(annotation: Any) -> None:
    """The handler gets what `authenticate` has returned, whatever the data are."""
    async with connected_pair(registered(annotation), data_mime_type=MIME.JSON) as requester:
        for data in (b'"eve"', b""):
            payload = Payload(data, Metadata(route="who").encode())
            assert await requester.request_response(payload) == Payload(b'"ada"')


@pytest.mark.parametrize(
    "annotation",
    [
        Optional[Marked],  # noqa: UP045 - a user may write it
        Marked | None,
        Alias | None,
        OfPart,
        New | None,
        list[Marked],
        dict[str, tuple[Marked, int]],
        Order,
        list[Order | None],
        OrderDict,
        OrderTuple,
        Deep,
    ],
)
def test_marks_of_parts(annotation: Any) -> None:
    """They would be read from the data of the peer: an error at registration."""
    with pytest.raises(TypeError, match=r"write `Annotated\[T, Principal\]`, or `Annotated\[T | N"):
        registered(annotation)


def test_types_without_an_end() -> None:
    """Types that contain themselves may be parameters."""
    registered(Tree)


async def one(number: int) -> int:
    return number


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (partial(one, 1, 2), "one cannot be a .* handler: it cannot take the arguments of partial"),
        (partial(one, other=1), "it cannot take the arguments of partial"),
    ],
)
def test_partials_that_cannot_be_called(handler: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        Router().request_response("one")(handler)


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ("list[", "an annotation of .*one cannot be evaluated: SyntaxError"),
        ("1 / 0", "an annotation of .*one cannot be evaluated: ZeroDivisionError"),
        ("json.nothing", "an annotation of .*one cannot be evaluated: AttributeError"),
        ("int | 'str'", "an annotation of .*one cannot be evaluated: TypeError"),
        ([int], "its parameter 'number' is annotated with a list, not a type"),
        ("Absent", "annotated with 'Absent', which cannot be resolved"),
    ],
)
def test_annotations_that_are_no_types(annotation: Any, reason: str) -> None:
    """The error names the handler."""

    async def one(number: int) -> int:
        return number

    one.__annotations__["number"] = annotation
    with pytest.raises(TypeError, match=reason):
        Router().request_response("one")(one)
