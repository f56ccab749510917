"""Who somebody is, by a token: ``python tokens.py ada > ada.token`` makes one."""

import hmac
import os
import secrets
import sys
from functools import cache
from pathlib import Path

import attrs

from rsocket_trio import (
    Authentication,
    BearerAuthentication,
    RequestFacts,
    ResumeFacts,
    Setup,
    Unauthenticated,
)

KEY = Path("chat.key")


@attrs.frozen
class User:
    """Somebody whose token was checked."""

    name: str


@cache
def key() -> bytes:
    """Return the key of the chat, which is made when it is needed first."""
    if not KEY.exists():
        with open(os.open(KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes())
    return KEY.read_bytes()


def token_of(name: str) -> str:
    """Return the token of a user: the name, signed."""
    return f"{name}.{hmac.digest(key(), name.encode(), 'sha256').hex()}"


async def authenticate(
    auth: Authentication | None, facts: Setup | RequestFacts | ResumeFacts
) -> User:
    """Return the user of a connection, or of a request that has a token of its own."""
    if auth is None and isinstance(facts.principal, User):
        return facts.principal
    if isinstance(auth, BearerAuthentication):
        name = auth.token.rpartition(".")[0]
        if hmac.compare_digest(auth.token.encode(), token_of(name).encode()):
            return User(name)
    raise Unauthenticated("a token of this chat is needed")


if __name__ == "__main__":
    print(token_of(sys.argv[1]))
