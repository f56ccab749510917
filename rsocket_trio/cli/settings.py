"""Options of a command from the environment and from a TOML file: `settings`.

The command line is asked first, then the environment, then the file, then the default. There is no
list of options: each one that a parser has may be set, under its own name. What is found becomes
arguments in front of those of the command line, so argparse checks it like them.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

__all__ = ["CONFIG", "SettingsError", "settings"]

CONFIG: Final = "--config"

_PREFIX: Final = "RSOCKET_TRIO"
_FILE: Final = f"{_PREFIX}_CONFIG"
_YES: Final = frozenset({"1", "true", "yes", "on"})
_NO: Final = frozenset({"0", "false", "no", "off", ""})


class SettingsError(Exception):
    """A setting is wrong; the text says which one, and never shows a value of a secret."""


def settings(
    command: Sequence[str],
    actions: Iterable[argparse.Action],
    groups: Iterable[Any],
    args: Sequence[str],
) -> list[str]:
    """Return the arguments that stand in the environment and in the file, and not in ``args``.

    Args:
        command: The words of the command.
        actions: The options and arguments of its parser.
        groups: Its groups of options that exclude one another.
        args: Its arguments.

    Raises:
        SettingsError: A name is unknown, or a value is wrong, or the file cannot be read.
    """
    options = {
        name.removeprefix("--"): action
        for action in actions
        for name in action.option_strings
        if name.startswith("--") and name not in ("--help", CONFIG)
    }
    taken = {id(each) for each in options.values() if _is_given(each, args)}
    excluding = [{id(each) for each in group._group_actions} for group in groups]  # noqa: SLF001
    found: list[str] = []
    for source in (_from_environment(command, options), _from_file(command, options, args)):
        new: set[int] = set()
        for name, (where, value) in source.items():
            action = options[name]
            mine = {id(action)}.union(*(each for each in excluding if id(action) in each))
            if not mine & taken:
                found += _arguments(f"--{name}", action, where, value)
                new.add(id(action))
        taken |= new
    return found


def _is_given(action: argparse.Action, args: Sequence[str]) -> bool:
    before = args[: args.index("--")] if "--" in args else args
    return any(
        each == name or each.startswith(f"{name}=")
        for each in before
        for name in action.option_strings
    )


def _from_environment(
    command: Sequence[str], options: Mapping[str, argparse.Action]
) -> dict[str, tuple[str, object]]:
    prefix = "_".join([_PREFIX, *command, ""]).upper().replace("-", "_")
    names = {name.upper().replace("-", "_"): name for name in options}
    found: dict[str, tuple[str, object]] = {}
    for variable, text in os.environ.items():
        if not variable.startswith(prefix):
            continue
        key = variable.removeprefix(prefix)
        if key not in names:
            nearest = [f"{prefix}{each}" for each in _nearest(key, names)]
            raise _unknown(variable, " ".join(command), nearest)
        name = names[key]
        found[name] = variable, _value_of(options[name], variable, text)
    return found


def _value_of(action: argparse.Action, variable: str, text: str) -> object:
    """Return what the text of a variable means, as TOML would say it."""
    if action.nargs == 0:
        if text.lower() not in _YES | _NO:
            raise SettingsError(f"{variable}: it is neither true nor false")
        return text.lower() in _YES
    if _is_list(action):
        try:
            return shlex.split(text)
        except ValueError:
            raise SettingsError(f"{variable}: a quotation mark is not closed") from None
    return text


def _from_file(
    command: Sequence[str], options: Mapping[str, argparse.Action], args: Sequence[str]
) -> dict[str, tuple[str, object]]:
    # The option is read here, as what stands in the file comes before the parser's turn.
    reader = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    reader.add_argument(CONFIG)
    before = args[: args.index("--")] if "--" in args else args
    try:
        named = reader.parse_known_args(before)[0].config
    except argparse.ArgumentError:  # the parser of the command says so
        return {}
    path = named or os.environ.get(_FILE)
    if not path:
        return {}
    table: object = _read(path)
    name = ".".join(command)
    for word in command:
        table = table.get(word, {}) if isinstance(table, dict) else table
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: {name} is no table")
    if named and not table:
        raise SettingsError(f"{path}: it has no table [{name}], which has the options of {name}")
    for key in table:
        if key not in options:
            raise _unknown(f"{path}: [{name}] {key}", " ".join(command), _nearest(key, options))
    return {key: (f"{path}: [{name}] {key}", value) for key, value in table.items()}


def _read(path: str) -> dict[str, Any]:
    # Importing it takes time, which a command without a file does not need.
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        # The position is in the text, and nothing of the file.
        raise SettingsError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: it is not UTF-8") from None
    except (ValueError, RecursionError):
        text = "a number has too many digits, or values are nested too deeply"
        raise SettingsError(f"{path}: {text}") from None


def _arguments(option: str, action: argparse.Action, where: str, value: object) -> list[str]:
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise SettingsError(f"{where}: it is neither true nor false")
        return [option] if value else []
    values = value if isinstance(value, list) and _is_list(action) else [value]
    texts = [_text(each, where) for each in values]
    for text in texts:
        _check(action, where, text)
    return [f"{option}={text}" for text in texts]


def _text(value: object, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise SettingsError(f"{where}: it is neither a text nor a number")
    return str(value)


def _check(action: argparse.Action, where: str, text: str) -> None:
    """Check a value as argparse will, whose error would name an option that nobody has written."""
    if action.choices is not None and text not in action.choices:
        raise SettingsError(f"{where}: it is not one of {', '.join(map(str, action.choices))}")
    if callable(action.type):
        try:
            action.type(text)
        except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
            raise SettingsError(f"{where}: {error}") from None


def _is_list(action: argparse.Action) -> bool:
    return isinstance(action, argparse._AppendAction)  # noqa: SLF001  no public name


def _nearest(name: str, names: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name.replace("_", "-") if name.islower() else name, names, 1)


def _unknown(where: str, command: str, nearest: Sequence[str]) -> SettingsError:
    hint = f"; the nearest is {nearest[0]}" if nearest else ""
    return SettingsError(f"{where}: {command} has no such option{hint}")
