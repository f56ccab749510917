"""Who may use a collector by RSocket, and for what: `Role`, `Grant`, `admit`, `check_roles`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from hmac import compare_digest
from typing import Final

import attrs

from ..errors import Rejected
from ..metadata import Authentication, BearerAuthentication, SimpleAuthentication
from ..responder import ResumeFacts, Setup
from ..routing import Authenticate, RequestFacts
from ..routing.refusals import shown
from .messages import EVENTS, FORGET, INFO, POSITION, READ, STATUS

__all__ = ["Grant", "Role", "admit", "check_roles"]


class Role(StrEnum):
    """What a client of a collector may do.

    Nothing is in two roles but the numbers, which readers and administrators may ask for: a sender
    can neither read nor have anything deleted.
    """

    SEND = "send"
    """Send events."""
    READ = "read"
    """Read all events, and commit the positions of any consumer, which lets events be deleted."""
    ADMIN = "admin"
    """Forget consumers."""


_ROUTES: Final = {
    Role.SEND: {EVENTS},
    Role.READ: {INFO, STATUS, READ, POSITION},
    Role.ADMIN: {INFO, STATUS, FORGET},
}
"""The routes of each role. A route that is in none is refused, also if it has a handler."""


def _roles(given: Iterable[Role | str]) -> frozenset[Role]:
    if isinstance(given, str):
        raise TypeError("roles must be a set of Role, not a single one")
    return frozenset(map(Role, given))


@attrs.frozen
class Grant:
    """What a token, or a user with a password, may do.

    Attributes:
        auth: The token, or the user and the password.
        roles: What its bearer may do; one at least.

    Raises:
        TypeError: ``auth`` is of another type, or ``roles`` is no set.
        ValueError: A role does not exist, or there is none; or the token is empty.
    """

    auth: BearerAuthentication | SimpleAuthentication
    roles: frozenset[Role] = attrs.field(converter=_roles)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.auth, BearerAuthentication | SimpleAuthentication):
            raise TypeError("auth must be a BearerAuthentication or a SimpleAuthentication")
        if not self.roles:
            raise ValueError("a grant without roles allows nothing: name one at least")
        if self.auth == BearerAuthentication(""):
            raise ValueError("the token is empty")


def admit(*grants: Grant) -> Authenticate:
    """Return what admits the clients that have one of the grants, each to what its roles allow.

    ``collect(..., authenticate=admit(Grant(BearerAuthentication(token), {Role.SEND})))``. The
    principal of a client is its `Grant`.

    Args:
        grants: The grants. All are compared each time, so that the time says nothing about a
            secret.

    Raises:
        TypeError: Something is no `Grant`.
        ValueError: There is no grant, so nobody could connect.
    """
    if not grants:
        raise ValueError("without a grant nobody could connect: name one at least")
    for each in grants:
        if not isinstance(each, Grant):
            raise TypeError(f"a grant must be a Grant, not {type(each).__name__}")
    # The bytes begin with the kind: a token is no password.
    known = [(each.auth.encode(), each) for each in grants]

    async def authenticate(
        auth: Authentication | None, facts: Setup | RequestFacts | ResumeFacts
    ) -> Grant:
        grant = facts.principal if auth is None else _granted(known, auth)
        if not isinstance(grant, Grant):
            raise Rejected("authentication is needed")
        if isinstance(facts, RequestFacts):
            check_roles(grant.roles, facts)
        return grant

    return authenticate


def _granted(known: list[tuple[bytes, Grant]], auth: Authentication) -> Grant:
    if not isinstance(auth, BearerAuthentication | SimpleAuthentication):
        raise Rejected("a token, or a user and a password, are needed")
    given = auth.encode()
    found = [grant for secret, grant in known if compare_digest(secret, given)]
    if not found:
        raise Rejected("the credentials are wrong")
    return found[0]


def check_roles(roles: Iterable[Role], facts: RequestFacts) -> None:
    """Refuse a request that no role allows; for an ``authenticate`` of your own.

    Args:
        roles: The roles of the client.
        facts: What the authenticator was given about the request.

    Raises:
        Rejected: None of the roles allows it.
    """
    held = sorted(set(roles))
    if not any(facts.route.name in _ROUTES[role] for role in held):
        raise Rejected(
            f"the route {shown(facts.route.name)} is not for these credentials: their"
            f" roles are {', '.join(held) or 'none'}"
        )
