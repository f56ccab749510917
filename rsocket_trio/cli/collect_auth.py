"""Credentials in the options of ``collect``: of its clients, and for publishers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from rsocket_trio.collector import Grant, Role, Subscription, admit, parse_subscription

from .exits import USAGE, Failure
from .metadata import read_bearer, read_simple

if TYPE_CHECKING:
    import argparse

__all__ = ["GivenGrants", "given_grants", "given_subscriptions"]

_WITH_ROLES: Final = re.compile(r"([a-z]+(?:,[a-z]+)*)=([^=].*)", re.DOTALL)
"""``ROLE[,ROLE]...=VALUE``. A token in base64 has a ``=`` only at its end."""
_WITHOUT_ROLES: Final = (Role.SEND, Role.READ)


def given_grants(args: argparse.Namespace) -> list[Grant]:
    """Return the credentials that the options name, with their roles.

    Raises:
        Failure: A role does not exist; or a secret cannot be read, or is not a user name and a
            password, or is empty.
    """
    found = []
    for option, read, arguments in (
        ("--auth-bearer", read_bearer, args.auth_bearer),
        ("--auth-simple", read_simple, args.auth_simple),
    ):
        for argument in arguments or ():
            roles, value = _split(argument, option)
            try:
                found.append(Grant(read(value), roles))
            except ValueError as error:
                raise Failure(f"{option}: {error}", USAGE) from error
    return found


class GivenGrants:
    """Admits who has the credentials that the options name; one at least is given.

    Raises:
        Failure: As for `given_grants`.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self.reload()

    def reload(self) -> None:
        """Read them again. A `Failure` changes nothing."""
        self._admit = admit(*given_grants(self._args))

    async def authenticate(self, *facts: Any) -> Any:
        """Admit a client, or refuse it; see `rsocket_trio.collector.admit`."""
        return await self._admit(*facts)


def given_subscriptions(args: argparse.Namespace) -> list[Subscription]:
    """Return the publishers that the options name, each with the credentials for it.

    Raises:
        Failure: A secret cannot be read, or a publisher of rsio has one.
    """
    found = []
    for number, text in enumerate(args.subscribe or ()):
        subscription = parse_subscription(text)
        if number in args.subscribe_auth:
            option, argument = args.subscribe_auth[number]
            read = read_simple if option.endswith("simple") else read_bearer
            try:
                subscription = attrs.evolve(subscription, auth=read(argument, option))
            except ValueError as error:
                raise Failure(f"{option}: {error}", USAGE) from error
        found.append(subscription)
    return found


def _split(argument: str, option: str) -> tuple[tuple[Role, ...], str]:
    parts = _WITH_ROLES.fullmatch(argument)
    if parts is None:
        return _WITHOUT_ROLES, argument
    try:
        return tuple(map(Role, parts[1].split(","))), parts[2]
    except ValueError:
        # What is there may be a part of a secret, so it is not shown.
        raise Failure(
            f"{option}: what is before the = is not made of the roles send, read and admin, as in"
            " send=@FILE; put a secret with a = into a file (@FILE)",
            USAGE,
        ) from None
