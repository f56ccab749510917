"""The cost of a request on its way to the handler: processor time of a small one, over memory.

``python -m benchmarks.routes [REQUESTS]`` prints microseconds of both ends for a request: with 10
and 1000 routes, with 1, 65 and 10 000 different ids in a template, and with middleware, guards and
dependencies. What a handler that enters the same block by itself adds is the least that middleware
could cost on trio. For two versions, run it by turns with ``PYTHONPATH`` of each, and compare the
medians: single runs differ by some percent.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Final

import trio

from rsocket_trio import (
    BearerAuthentication,
    Call,
    Metadata,
    Middleware,
    Payload,
    Provided,
    RequestFacts,
    Router,
)
from rsocket_trio.metadata import MIME, MetadataEntry
from rsocket_trio.testing.in_memory import connected_pair

_CALLERS: Final = 32
_REQUESTS: Final = 6400
_ROUNDS: Final = 3


async def _admit(_auth: object, facts: object) -> str:
    return str(facts.principal) if isinstance(facts, RequestFacts) else "somebody"


async def _nothing(_call: Call) -> AsyncIterator[None]:
    yield


class _Nothing:
    def __init__(self, _call: Call) -> None: ...

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


class _First: ...


class _Second: ...


class _Third: ...


async def _first() -> AsyncIterator[_First]:
    yield _First()


async def _second(_needed: Annotated[_First, Provided]) -> _Second:
    return _Second()


def _third(_needed: Annotated[_Second, Provided]) -> _Third:
    return _Third()


def _with_dependencies() -> Router:
    router = Router()
    router.provide(_First, _first)
    router.provide(_Second, _second)
    router.provide(_Third, _third)

    @router.request_response("service0.room0")
    async def echo(
        data: bytes,
        _first: Annotated[_First, Provided],
        _second: Annotated[_Second, Provided],
        _third: Annotated[_Third, Provided],
    ) -> bytes:
        return data

    return router


def _router(
    number: int,
    *,
    guarded: bool = False,
    variables: bool = False,
    middleware: Sequence[Middleware] = (),
) -> Router:
    router = Router(authenticate=_admit if guarded else None, middleware=middleware)

    async def echo(data: bytes) -> bytes:
        return data

    async def at(room: str, data: bytes) -> bytes:
        return data

    for k in range(number):
        if variables:
            router.request_response(f"service{k // 20}.room{k}.{{room}}")(at)
        else:
            router.request_response(f"service{k // 20}.room{k}")(echo)
    return router


def _by_hand() -> tuple[Router, Router]:
    """Routers whose handlers enter the blocks of the cases with middleware by themselves."""
    generator, manager = Router(), Router()

    @generator.request_response("service0.room0")
    async def around(data: bytes, call: Call) -> bytes:
        block = _nothing(call)
        await anext(block, None)
        try:
            return data
        finally:
            await anext(block, None)

    @manager.request_response("service0.room0")
    async def within(data: bytes, call: Call) -> bytes:
        async with _Nothing(call):
            return data

    return generator, manager


def _asked(number: int, **more: BearerAuthentication) -> list[bytes | None]:
    return [Metadata(route=f"service{k // 20}.room{k}", **more).encode() for k in range(number)]


def _ids(number: int) -> list[bytes | None]:
    return [Metadata(route=f"service0.room1.{k}").encode() for k in range(number)]


def _cases() -> dict[str, tuple[Router, Sequence[bytes | None]]]:
    token = BearerAuthentication("t" * 20)
    one = _asked(1)[0] or b""
    generator, manager = _by_hand()
    entry = MetadataEntry("message/x.example.deadline.v0", bytes(4)).encode()[:-4]
    return {
        "10 of 10 routes": (_router(10), _asked(10)),
        "1 of 1000 routes": (_router(1000), _asked(1)),
        "65 of 1000 routes": (_router(1000), _asked(65)),
        "1000 of 1000 routes": (_router(1000), _asked(1000)),
        "1 id, 10 templates": (_router(10, variables=True), _ids(1)),
        "1 id, 1000 templates": (_router(1000, variables=True), _ids(1)),
        "65 ids, 1000 templates": (_router(1000, variables=True), _ids(65)),
        "10000 ids, 1000 templates": (_router(1000, variables=True), _ids(10_000)),
        "an entry that differs": (
            _router(1),
            [one + entry + bytes((0, 0, 0, k)) for k in range(256)],
        ),
        "a middleware": (_router(1, middleware=[_nothing]), _asked(1)),
        "a middleware, a class": (_router(1, middleware=[_Nothing]), _asked(1)),
        "the block by hand": (generator, _asked(1)),
        "the class by hand": (manager, _asked(1)),
        "3 of them": (_router(1, middleware=[_nothing] * 3), _asked(1)),
        "3 dependencies": (_with_dependencies(), _asked(1)),
        "authenticator": (_router(1, guarded=True), _asked(1)),
        "authenticator and token": (_router(1, guarded=True), _asked(1, auth=token)),
    }


async def _cost(router: Router, metadata: Sequence[bytes | None], requests: int) -> float:
    """Return microseconds of processor time for a request."""
    async with connected_pair(router, data_mime_type=MIME.OCTET_STREAM) as requester:
        payloads = [Payload(bytes(16), each) for each in metadata]

        async def call(first: int, number: int) -> None:
            for i in range(first, first + number):
                await requester.request_response(payloads[i % len(payloads)])

        async def run(number: int) -> float:
            began = time.process_time()
            async with trio.open_nursery() as nursery:
                for caller in range(_CALLERS):
                    share = number // _CALLERS
                    nursery.start_soon(call, caller * share, share)
            return (time.process_time() - began) / number * 1e6

        await run(requests)
        gc.collect()
        return await run(requests)


def main(requests: int = _REQUESTS) -> None:
    """Print the cost of each case, the least of some rounds."""
    for name, (router, metadata) in _cases().items():
        least = min(trio.run(_cost, router, metadata, requests) for _ in range(_ROUNDS))
        print(f"{name:26} {least:6.2f} us")


if __name__ == "__main__":
    main(*[int(each) for each in sys.argv[1:2]])
