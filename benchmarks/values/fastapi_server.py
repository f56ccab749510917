"""The server of FastAPI: pydantic's models, uvicorn with httptools, and asyncio's own loop."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterable
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from benchmarks.control import ready
from benchmarks.values.messages import FIELDS, ITEM, VALUES


class Line(BaseModel):
    sku: str
    quantity: int
    price: float


class Order(BaseModel):
    id: int
    customer: str
    lines: list[Line]
    note: str | None = None


class Blob(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    name: str
    data: bytes


class Item(BaseModel):
    id: int
    name: str
    price: float


Fields: Final = create_model("Fields", **{name: (kind, ...) for name, kind in FIELDS})  # type: ignore[call-overload]  # made here

ADAPTERS: Final[dict[str, TypeAdapter[Any]]] = {
    "order": TypeAdapter(Order),
    "fields": TypeAdapter(Fields),
    "ints": TypeAdapter(list[int]),
    "blob": TypeAdapter(Blob),
}
OF_ONE_ITEM: Final = Item.model_validate(ITEM, from_attributes=True)

application = FastAPI()


def value_of(kind: str) -> Any:
    """Return the value of a kind of request."""
    return ADAPTERS[kind].validate_python(VALUES[kind], from_attributes=True)


@application.post("/order")
async def order(value: Order) -> Order:
    return value


@application.post("/fields")
async def fields(value: Fields) -> Fields:  # type: ignore[valid-type]  # made at run time
    return value


@application.post("/ints")
async def ints(value: list[int]) -> list[int]:
    return value


@application.post("/blob")
async def blob(value: Blob) -> Blob:
    return value


@application.get("/items/{count}")
async def items(count: int) -> AsyncIterable[Item]:
    for _ in range(count):
        yield OF_ONE_ITEM


async def main(application: FastAPI = application) -> None:
    """Serve until the standard input ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            http="httptools",
            loop="asyncio",
            lifespan="off",
            access_log=False,
            log_level="warning",
            timeout_keep_alive=3600,  # the other stacks have their turns
        )
    )
    serving = asyncio.create_task(server.serve([listener]))
    ready(f"http://127.0.0.1:{listener.getsockname()[1]}")
    await asyncio.to_thread(sys.stdin.read)
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
