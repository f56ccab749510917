"""The text of the generated module ``x_ttrpc.py``."""

from __future__ import annotations

from collections.abc import Iterator

from .docstrings import literal
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

__all__ = ["module_source"]


def module_source(model: FileModel) -> str:
    """Return the text of the module for a .proto file."""
    lines = [*head(model), "", "from __future__ import annotations", ""]
    if not all(each.has_statement for each in model.imports):
        lines += ["from importlib import import_module", ""]
    lines += [runtime_import(model), ""]
    if model.imports:
        lines += [*imports(model.imports), ""]
    lines += _exports(model)
    for service in model.services:
        for part in (_methods, _client, _base):
            lines += ["", "", *part(service)]
    return "\n".join(lines) + "\n"


def _exports(model: FileModel) -> list[str]:
    names = [
        f"{each.name}{end}" for each in model.services for end in ("Base", "Client", "Methods")
    ]
    return ["__all__ = [", *indented([f"{literal(name)}," for name in sorted(names)]), "]"]


def _methods(service: ServiceModel) -> Iterator[str]:
    yield f"class {service.name}Methods:"
    yield from indented(methods_docstring(service))
    for method in service.methods:
        yield ""
        yield from indented(
            [
                f"{method.constant} = ttrpc.Method(",
                f"    service={literal(service.full_name)},",
                f"    name={literal(method.name)},",
                f"    kind=ttrpc.MethodKind.{method.kind},",
                f"    request={_codec(method.request)},",
                f"    response={_codec(method.response)},",
                ")",
            ]
        )


def _codec(message: MessageType) -> str:
    return f"ttrpc.codec_for({message.expression})"


def _client(service: ServiceModel) -> Iterator[str]:
    yield f"class {service.name}Client:"
    yield from indented(client_docstring(service))
    yield ""
    check = f"ttrpc.check_client(client, {literal(f'{service.name}Client')})"
    yield from indented(["def __init__(self, client):", f"    self._client = {check}"])
    for method in service.methods:
        yield ""
        yield from indented(_call(service, method))


def _call(service: ServiceModel, method: MethodModel) -> Iterator[str]:
    constant = f"{service.name}Methods.{method.constant}"
    request = "" if method.sends_stream else ", request"
    prefix, wait, options, passed = "", "", "metadata=None", "metadata=metadata"
    if method.kind == "UNARY":
        prefix, wait = "async ", "await "
        options += ", idempotent=False"
        passed += ", idempotent=idempotent"
    yield f"{prefix}def {method.python}(self{request}, *, {options}):"
    yield from indented(method_docstring(method))
    call = f"self._client.{method.kind.lower()}({constant}{request}, {passed})"
    yield from indented([f"return {wait}{call}"])


def _base(service: ServiceModel) -> Iterator[str]:
    yield f"class {service.name}Base(ttrpc.ServiceBase):"
    yield from indented(base_docstring(service))
    yield ""
    entries = [
        f"{literal(each.name)}: ({literal(each.python)}, {service.name}Methods.{each.constant}),"
        for each in service.methods
    ]
    yield from indented([f"__ttrpc_service__ = {literal(service.full_name)}"])
    yield from indented(["__ttrpc_methods__ = {", *indented(entries), "}"])
    for method in service.methods:
        yield ""
        yield from indented(_handler(method))


def _handler(method: MethodModel) -> Iterator[str]:
    request = "requests" if method.sends_stream else "request"
    yield f"async def {method.python}(self, {request}, call):"
    yield from indented(method_docstring(method))
    yield from indented([f"raise ttrpc.Unimplemented({literal(f'method {method.name}')})"])
    if method.receives_stream:
        # So it is an async generator function, as the methods that override it.
        yield from indented(["yield"])
