"""What a case and a stack are: `Case`, `Stack`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

ROOT = Path(__file__).parent.parent


@attrs.frozen(kw_only=True)
class Case:
    """A case, which gives one figure for each stack.

    Attributes:
        name: The name, for ``--only``.
        title: The title in the report, with parameters in braces.
        group: The table of the report: a key of `GROUPS`.
        operation: The name of the operation in the client programs.
        parameters: The parameters of the command.
        unit: The unit of the rate.
        scale: The size of one completion in that unit.
        only: The families of stacks that run the case; all if empty.
        server_args: Further arguments of the server, by the family of the stack.
        client_args: Further arguments of the client, by the family of the stack.
        server: The command of the server for all stacks, instead of their own.
        client: The command of the client for all stacks, instead of their own.
        scheme: The kind of the server's address.
        end: The end whose processor time is measured: ``"server"`` or ``"client"``.
        reference: The name of the stack whose figures are divided by those of the others.
        missing: Returns the reason why a program of the case cannot run here, or ``None``.
    """

    name: str
    title: str
    group: str
    operation: str
    parameters: Mapping[str, object] = attrs.field(factory=dict)
    unit: str = "/s"
    scale: float = 1.0
    only: tuple[str, ...] = ()
    server_args: dict[str, list[str]] = attrs.field(factory=dict)
    client_args: dict[str, list[str]] = attrs.field(factory=dict)
    server: list[str] | None = None
    client: list[str] | None = None
    scheme: str = "tcp"
    end: str = "server"
    reference: str = "ours"
    missing: Callable[[], str | None] = lambda: None

    @property
    def heading(self) -> str:
        """The title, with its parameters filled in."""
        return self.title.format(**self.parameters)

    def scaled(self, scale: float) -> Case:
        """Return the case with its numbers of connections and streams scaled.

        No number goes below 10 by that, and a smaller one stays as it is.
        """
        fewer = {
            name: min(value, max(10, int(value * scale)))
            for name, value in self.parameters.items()
            if name in ("connections", "streams") and isinstance(value, int)
        }
        return attrs.evolve(self, parameters={**self.parameters, **fewer})


@attrs.frozen(kw_only=True)
class Stack:
    """One implementation of RSocket.

    Attributes:
        name: The name, for ``--stacks``.
        title: The title in the report.
        server: The command of its server. The harness appends the scheme.
        client: The command of its client. The harness appends the URI of the server.
        groups: The groups of cases that it can run.
        cannot: The cases that it cannot run, with the reasons.
        missing: Returns the reason why its programs cannot run here, or ``None``.
        warm_up: Processor time of its server before the measurement, in seconds; for stacks that
            compile while they run.
        directory: The working directory of its programs, where Python looks for modules first.
        family: The name by which cases give arguments. Two stacks of one kind share it.
    """

    name: str
    title: str
    server: list[str]
    client: list[str]
    groups: frozenset[str]
    cannot: dict[str, str] = attrs.field(factory=dict)
    missing: Callable[[], str | None] = lambda: None
    warm_up: float = 0.0
    directory: Path = ROOT
    family: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True))
