"""Routers whose handlers answer with the principal, and authenticators that name it."""

from typing import Annotated, Any

from rsocket_trio import (
    ApplicationError,
    BearerAuthentication,
    Invalid,
    Metadata,
    Payload,
    Principal,
    Rejected,
    Router,
)

Who = Annotated[Any, Principal]

ADA = Metadata(auth=BearerAuthentication("ada"))


def setup_of(metadata):
    return Payload(b"", metadata.encode())


def make(*routes, **settings):
    """A router whose handlers answer with their principal."""
    router = Router(**settings)
    for route in routes:

        @router.request_response(route)
        async def handler(who: Who) -> bytes:
            return str(who).encode()

    return router


def keeper(name):
    """An authenticator that admits clients with a token, and names the principal after itself."""

    async def authenticate(auth, facts):
        if auth is None and facts.principal is not None:
            return facts.principal
        if auth is None:
            raise Rejected(f"{name}: who are you?")
        return f"{name}:{auth.token}"

    return authenticate


def public(*routes):
    router = Router()
    for route in routes:

        @router.request_response(route)
        async def handler() -> bytes:
            return b"public"

    return router


async def ask(requester, route=None, metadata=None):
    try:
        answer = await requester.request_response(route=route, metadata=metadata)
    except (Rejected, Invalid, ApplicationError) as error:
        return str(error)
    return answer.data.decode()
