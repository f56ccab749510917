"""The text of the types of the generated module: ``x_ttrpc.pyi``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .model import FileModel, MessageType, MethodModel, ServiceModel
from .texts import (
    base_docstring,
    client_docstring,
    head,
    imports,
    indented,
    method_docstring,
    methods_docstring,
    runtime_import,
)

__all__ = ["stub_source"]

_CALLS: Final = {
    "SERVER_STREAM": "ttrpc.ReplyStream[{response}]",
    "CLIENT_STREAM": "ttrpc.ClientStream[{request}, {response}]",
    "BIDI_STREAM": "ttrpc.BidiStream[{request}, {response}]",
}
"""What the call of each kind gives to its ``async with`` block."""


def stub_source(model: FileModel) -> str:
    """Return the text of the types for a .proto file."""
    lines = [*head(model), "", *_imports(model)]
    modules = tuple(each for each in model.imports if each.has_statement)
    if modules:
        lines += ["", *imports(modules)]
    for service in model.services:
        for part in (_methods, _client, _base):
            lines += ["", *part(service)]
    return "\n".join(lines) + "\n"


def _imports(model: FileModel) -> Iterator[str]:
    methods = list(model.methods)
    if any(each.receives_stream for each in methods):
        yield "from collections.abc import AsyncIterator"
    if any(each.kind != "UNARY" for each in methods):
        yield "from contextlib import AbstractAsyncContextManager"
    types = [each for method in methods for each in (method.request, method.response)]
    typing = ["Any"] if not all(each.is_nameable for each in types) else []
    typing += ["Final"] if methods else []
    if typing:
        yield f"from typing import {', '.join(typing)}"
    yield ""
    if any(each.sends_stream for each in methods):
        yield "from trio.abc import ReceiveChannel"
        yield ""
    yield runtime_import(model)


def _methods(service: ServiceModel) -> Iterator[str]:
    yield f"class {service.name}Methods:"
    yield from indented(methods_docstring(service))
    if service.methods:
        yield ""
    for method in service.methods:
        types = f"{_type(method.request)}, {_type(method.response)}"
        yield from indented([f"{method.constant}: Final[ttrpc.Method[{types}]]"])


def _type(message: MessageType) -> str:
    return message.expression if message.is_nameable else "Any"


def _client(service: ServiceModel) -> Iterator[str]:
    yield f"class {service.name}Client:"
    yield from indented(client_docstring(service))
    yield ""
    yield from indented(["def __init__(self, client: ttrpc.Client) -> None: ..."])
    for method in service.methods:
        yield from indented(_call(method))


def _call(method: MethodModel) -> Iterator[str]:
    request, response = _type(method.request), _type(method.response)
    arguments = ["self"] if method.sends_stream else ["self", f"request: {request}"]
    arguments += ["*", "metadata: ttrpc.MetadataLike | None = None"]
    if method.kind == "UNARY":
        arguments.append("idempotent: bool = False")
        returned, prefix = response, "async "
    else:
        stream = _CALLS[method.kind].format(request=request, response=response)
        returned, prefix = f"AbstractAsyncContextManager[{stream}]", ""
    yield f"{prefix}def {method.python}("
    yield from indented([f"{each}," for each in arguments])
    yield f") -> {returned}:"
    yield from indented(method_docstring(method))


def _base(service: ServiceModel) -> Iterator[str]:
    yield f"class {service.name}Base(ttrpc.ServiceBase):"
    yield from indented(base_docstring(service))
    if service.methods:
        yield ""
    for method in service.methods:
        yield from indented(_handler(method))


def _handler(method: MethodModel) -> Iterator[str]:
    request, response = _type(method.request), _type(method.response)
    if method.sends_stream:
        argument = f"requests: ReceiveChannel[{request}]"
    else:
        argument = f"request: {request}"
    returned, prefix = response, "async "
    if method.receives_stream:
        # An async generator function returns its iterator at once.
        returned, prefix = f"AsyncIterator[{response}]", ""
    yield f"{prefix}def {method.python}("
    yield from indented(["self,", f"{argument},", "call: ttrpc.Call,"])
    yield f") -> {returned}:"
    yield from indented(method_docstring(method))
