"""The options of a data source, checked: `Options`, `parse_place`.

Spark gives all options as text. It does not keep the case of their names, and does not know which
ones there are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, Literal, TypeVar, overload

from ..sizes import parse_size
from .tls_options import TlsSettings

__all__ = ["Options", "parse_place"]

_Default = TypeVar("_Default")
_Place = TypeVar("_Place")

_PLACES: Final[dict[str, Literal["earliest", "latest"]]] = {
    "earliest": "earliest",
    "latest": "latest",
}
_REQUIRED: Final = object()

SPARKS_OWN: Final = frozenset({
    "path",
    "checkpointlocation",
    "queryname",
    "outputmode",
    "asyncprogresstrackingenabled",
    "asyncprogresstrackingcheckpointintervalms",
    "cores",
})  # fmt: skip
"""Options that Spark passes on to sources and sinks, for itself; and what `register` tells all of
them, which is of use to some."""

EXAMPLES: Final = {
    "uri": ', e.g. .option("uri", "tcp://127.0.0.1:7878")',
    "route": ', the name of a handler, e.g. .option("route", "alerts")',
    "hosts": ', e.g. .option("hosts", "logs1:5044,logs2:5044")',
}
"""What an error shows for options that are required."""

_LONGEST: Final = 2**63 - 1
"""Spark and the spool keep numbers in 64 bits."""

_FLAGS: Final = {"true": True, "false": False}


def parse_place(
    text: str, option: str, read: Callable[[object], _Place], forms: str
) -> Literal["earliest", "latest"] | _Place:
    """Return the value of ``startingOffsets`` or ``endingOffsets`` of any source.

    Args:
        text: The value.
        option: The name of the option.
        read: Returns what a value in JSON means; it raises a `ValueError` for another one.
        forms: Says what such a value is, for the text of an error.

    Raises:
        ValueError: It is none of the three forms.
    """
    word = _PLACES.get(text.strip().lower())
    if word is not None:
        return word
    try:
        return read(json.loads(text))
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= 100 else f"{text[:100]}..."
        raise ValueError(
            f"the option {option} must be earliest, latest, or {forms}, not {shown!r}: {error}"
        ) from None


class Options:
    """The options that a program has given to a source or a sink.

    Read all options that there are, and call `finish` then: it raises an error for the others. An
    option whose text is empty counts as given.

    Args:
        given: What Spark passes to the data source. The case of the names does not matter.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given: Final = {name.lower(): value for name, value in given.items()}
        self._spelt: Final = {name.lower(): name for name in given}
        self._known: Final[dict[str, str]] = {}

    def know(self, *names: str) -> None:
        """Accept options that are of no use here, e.g. those of another mode."""
        for name in names:
            self._known.setdefault(name.lower(), name)

    def has(self, name: str) -> bool:
        """Return whether the option is given."""
        self.know(name)
        return name.lower() in self._given

    @overload
    def text(self, name: str) -> str: ...
    @overload
    def text(self, name: str, default: _Default) -> str | _Default: ...
    def text(self, name: str, default: object = _REQUIRED) -> object:
        """Return the text of an option.

        Args:
            name: The name of the option, as the documentation spells it.
            default: The value without the option. If it is left out, the option is required.

        Raises:
            ValueError: A required option is missing or empty.
        """
        self.know(name)
        value = self._given.get(name.lower())
        if default is _REQUIRED and not value:
            raise ValueError(self._missing(name))
        return default if value is None else value

    @overload
    def integer(
        self, name: str, default: int, low: int | None = None, high: int | None = None
    ) -> int: ...
    @overload
    def integer(
        self, name: str, default: None = None, low: int | None = None, high: int | None = None
    ) -> int | None: ...
    def integer(
        self,
        name: str,
        default: int | None = None,
        low: int | None = None,
        high: int | None = None,
    ) -> int | None:
        """Return an option that is a whole number.

        Args:
            name: The name of the option.
            default: The value without the option.
            low: The smallest value.
            high: The largest value, at most that of a BIGINT.

        Raises:
            ValueError: The value is not a number, or not in this range.
        """
        value = self.text(name, None)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            raise self._wrong(name, value, "a whole number") from None
        return self._in_range(name, value, number, low, high)

    @overload
    def size(self, name: str, default: int, low: int, high: int = ...) -> int: ...
    @overload
    def size(self, name: str, default: None, low: int, high: int = ...) -> int | None: ...
    def size(self, name: str, default: int | None, low: int, high: int = 2**63 - 1) -> int | None:
        """Return an option that is a number of bytes, such as ``4096`` or ``64M``.

        Args:
            name: The name of the option.
            default: The value without the option.
            low: The smallest value.
            high: The largest value.

        Raises:
            ValueError: The value is not a size, or not in this range.
        """
        value = self.text(name, None)
        if value is None:
            return default
        number = parse_size(value.strip())
        if number is None:
            raise self._wrong(name, value, "a number of bytes, such as 4096 or 64M")
        return self._in_range(name, value, number, low, high)

    def _in_range(
        self, name: str, value: str, number: int, low: int | None, high: int | None
    ) -> int:
        if low is not None and number < low:
            raise self._wrong(name, value, f"at least {low}")
        if number > (_LONGEST if high is None else high):
            raise self._wrong(name, value, f"at most {high or _LONGEST}")
        return number

    def milliseconds(
        self, name: str, default: int, low: int = 1, high: int = 24 * 60 * 60 * 1000
    ) -> float:
        """Return an option in milliseconds, as seconds.

        Args:
            name: The name of the option.
            default: The milliseconds without the option.
            low: The fewest milliseconds.
            high: The most milliseconds; a day, unless something else is said.

        Raises:
            ValueError: The value is not a number, or not in this range.
        """
        return self.integer(name, default, low, high) / 1000

    def flag(self, name: str, default: bool) -> bool:
        """Return an option that is ``true`` or ``false``, in any case.

        Raises:
            ValueError: It is something else.
        """
        value = self.text(name, None)
        if value is None:
            return default
        flag = _FLAGS.get(value.strip().lower())
        if flag is None:
            raise self._wrong(name, value, "true or false")
        return flag

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """Return one of the choices, in their spelling; the option may be in any case.

        Raises:
            ValueError: It is something else.
        """
        value = self.text(name, None)
        if value is None:
            return default
        for choice in choices:
            if choice.lower() == value.strip().lower():
                return choice
        *most, last = choices
        raise self._wrong(name, value, f"{', '.join(most)} or {last}" if most else last)

    def list(self, name: str) -> tuple[str, ...]:
        """Return the parts of an option that has commas between them, without empty ones."""
        parts = (part.strip() for part in self.text(name, "").split(","))
        return tuple(part for part in parts if part)

    def tls(self, prefix: str = "tls") -> TlsSettings:
        """Return the settings of TLS.

        These are the options ``tls.ca``, ``tls.cert``, ``tls.key`` and ``tls.insecure``.

        Args:
            prefix: What their names begin with.

        Raises:
            ValueError: They do not go together, or a file cannot be used.
        """
        return TlsSettings.of(
            prefix,
            ca=self.text(f"{prefix}.ca", None),
            cert=self.text(f"{prefix}.cert", None),
            key=self.text(f"{prefix}.key", None),
            insecure=self.flag(f"{prefix}.insecure", default=False),
        )

    def finish(self) -> None:
        """Check that there are no other options than those that were asked for.

        Raises:
            ValueError: There are; the text has the nearest names that are known.
        """
        unknown = sorted(self._given.keys() - self._known.keys() - SPARKS_OWN)
        if unknown:
            raise ValueError("; ".join(map(self._unknown, unknown)))

    def _unknown(self, name: str) -> str:
        text = f"there is no option {self._spelt[name]}"
        near = get_close_matches(name, self._known, n=1)
        if near:
            return f"{text}: did you mean {self._known[near[0]]}?"
        return f"{text}: there are {', '.join(sorted(self._known.values()))}"

    def _missing(self, name: str) -> str:
        others = [each for each in self._given if each not in self._known]
        near = get_close_matches(name.lower(), others, n=1)
        meant = f": did you mean it by {self._spelt[near[0]]}?" if near else ""
        return f"the option {name} is required{EXAMPLES.get(name, '')}{meant}"

    @staticmethod
    def _wrong(name: str, value: str, expected: str) -> ValueError:
        shown = value if len(value) <= 100 else f"{value[:100]}..."
        return ValueError(f"the option {name} must be {expected}, not {shown!r}")
