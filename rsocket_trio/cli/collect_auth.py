"""Who may use a collector by RSocket, as the options of ``collect`` say: `required_credentials`."""

from __future__ import annotations

from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final

from rsocket_trio import BearerAuthentication, Rejected, SimpleAuthentication

from .exits import USAGE, Failure
from .metadata import read_bearer, read_simple

if TYPE_CHECKING:
    import argparse

    from rsocket_trio import Authenticate, Authentication, RequestFacts, ResumeFacts, Setup

__all__ = ["given_credentials", "required_credentials"]


def given_credentials(args: argparse.Namespace) -> list[Authentication]:
    """Return the credentials that the options name.

    Raises:
        Failure: A secret cannot be read, or is not a user name and a password, or is empty.
    """
    found: list[Authentication] = [read_bearer(each) for each in args.auth_bearer or ()]
    found += [read_simple(each) for each in args.auth_simple or ()]
    for each in found:
        if each == BearerAuthentication(""):
            raise Failure("--auth-bearer: the token is empty", USAGE)
    return found


def required_credentials(args: argparse.Namespace) -> Authenticate | None:
    """Return what admits the clients that have one of the credentials; ``None`` admits all.

    Raises:
        Failure: As for `given_credentials`.
    """
    found = given_credentials(args)
    return _Admission(found) if found else None


class _Admission:
    """Admits connections whose SETUP has one of the credentials, and their requests."""

    def __init__(self, known: list[Authentication]) -> None:
        self._known: Final = {each.encode(): _name_of(each) for each in known}

    async def __call__(
        self, auth: Authentication | None, facts: Setup | RequestFacts | ResumeFacts
    ) -> Any:
        if auth is None and facts.principal is not None:
            return facts.principal  # that of the connection
        if auth is None:
            raise Rejected("authentication is needed")
        if not isinstance(auth, BearerAuthentication | SimpleAuthentication):
            raise Rejected("a token, or a user and a password, are needed")
        given = auth.encode()
        # The bytes begin with the kind: a token is no password. All of them are compared, so the
        # time says nothing about a part of a secret.
        names = [name for known, name in self._known.items() if compare_digest(known, given)]
        if not names:
            raise Rejected("the credentials are wrong")
        return names[0]


def _name_of(auth: Authentication) -> str:
    return auth.username if isinstance(auth, SimpleAuthentication) else "the bearer of a token"
