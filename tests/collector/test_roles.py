"""Roles of credentials: who may send to a collector, read from it, and forget consumers."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio

from rsocket_trio import (
    BearerAuthentication,
    CustomAuthentication,
    Metadata,
    Payload,
    Rejected,
    RequestFacts,
    SimpleAuthentication,
    connect,
)
from rsocket_trio.collector import (
    EVENTS,
    Grant,
    Role,
    admit,
    check_roles,
    connect_collector,
    messages,
)
from rsocket_trio.errors import RejectedSetup, StreamError
from tests.collector.running import data, running

ROUTES = {
    name: value
    for name, value in vars(messages).items()
    if name.isupper() and isinstance(value, str)
} | {"UNKNOWN": "spool.other"}
ALLOWED = {
    "send": {"EVENTS"},
    "read": {"INFO", "STATUS", "READ", "POSITION"},
    "admin": {"INFO", "STATUS", "FORGET"},
}
TOKEN = BearerAuthentication("s3cret")


async def refused(requester, route, **options):
    """Whether a request to a route is refused for its roles, and not for what it says."""
    try:
        if route == EVENTS:
            async with requester.request_channel([Payload(b"1")], route=route, **options) as found:
                _ = [each async for each in found]
        else:
            async with requester.request_stream(Payload(b""), route=route, **options) as found:
                _ = [each async for each in found]
    except StreamError as error:
        return "is not for these credentials" in str(error)
    return False


@asynccontextmanager
async def connected(uri, auth):
    async with connect(
        uri, setup_metadata=Metadata(auth=auth), data_mime_type="application/json"
    ) as requester:
        yield requester


@pytest.mark.parametrize("roles", ["send", "read", "admin", "send,read", "read,admin"])
async def test_each_route_is_for_its_roles(tmp_path, roles):
    """Every route of the collector's messages, and one that is in no role, is tried."""
    held = roles.split(",")
    allowed = set().union(*(ALLOWED[each] for each in held))
    async with running(tmp_path / "events", authenticate=admit(Grant(TOKEN, held))) as collector:
        async with connected(collector.uris[0], TOKEN) as requester:
            found = {name for name, route in ROUTES.items() if not await refused(requester, route)}
    assert found == allowed
    assert len(ROUTES) == 7


async def test_a_sender_reads_and_deletes_nothing(tmp_path):
    """By the client of readers; its fire_and_forget and channels still store events."""
    sender, reader = BearerAuthentication("a"), SimpleAuthentication("spark", "b")
    grants = Grant(sender, {Role.SEND}), Grant(reader, {Role.READ})
    async with running(tmp_path / "events", authenticate=admit(*grants)) as collector:
        uri, spool = collector.uris[0], collector.spool
        async with connected(uri, sender) as requester:
            async with requester.request_channel([Payload(b"1")], route=EVENTS) as receipts:
                assert len([each async for each in receipts]) == 1
        async with connect_collector(uri, auth=reader) as client:
            await client.commit("report", 0, instance="a", spool_id=spool.spool_id)
        async with connect_collector(uri, auth=sender) as client:
            for ask in (
                client.info,
                client.statistics,
                lambda: client.commit("report", 1, instance="b", spool_id=spool.spool_id),
                lambda: client.forget("report", spool_id=spool.spool_id, force=True),
            ):
                with pytest.raises(Rejected, match="their roles are send"):
                    await ask()
            with pytest.raises(Rejected, match="their roles are send"):
                async with client.read(0, 1, spool_id=spool.spool_id) as batches:
                    await anext(batches)
        assert (spool.oldest, spool.head, spool.positions()) == (0, 1, {"report": 0})
    assert data(tmp_path / "events") == [b"1"]


async def test_a_request_with_credentials_of_its_own(tmp_path):
    """They count for this request, and not those of the connection; wrong ones are refused."""
    sender, reader = BearerAuthentication("a"), BearerAuthentication("b")
    guard = admit(Grant(sender, {Role.SEND}), Grant(reader, {Role.READ}))
    async with running(tmp_path / "events", authenticate=guard) as collector:
        async with connected(collector.uris[0], sender) as requester:
            assert await refused(requester, "spool.info")
            mine = Metadata(auth=reader)
            assert not await refused(requester, "spool.info", metadata=mine)
            for wrong, why in (
                (BearerAuthentication("c"), "the credentials are wrong"),
                (SimpleAuthentication("", "a"), "the credentials are wrong"),
                (CustomAuthentication("x.mine", b"a"), "are needed"),
            ):
                with pytest.raises(Rejected, match=why):
                    await requester.request_response(
                        Payload(b""), route="spool.info", metadata=Metadata(auth=wrong)
                    )


async def test_nobody_comes_in_without_credentials(tmp_path):
    """The connection is refused, also with the password of a user as a token."""
    guard = admit(Grant(SimpleAuthentication("ada", "pw"), Role))
    async with running(tmp_path / "events", authenticate=guard) as collector:
        for auth in (None, BearerAuthentication("pw"), SimpleAuthentication("ada", "pw2")):
            with pytest.raises(RejectedSetup):
                async with connect_collector(collector.uris[0], auth=auth) as client:
                    await client.info()
                    await trio.sleep_forever()


async def test_an_authenticator_of_ones_own(tmp_path):
    """`check_roles` does for it what `admit` does."""

    async def authenticate(auth, facts):
        roles = {Role(auth.token)} if auth is not None else facts.principal
        if isinstance(facts, RequestFacts):
            check_roles(roles, facts)
        return roles

    async with running(tmp_path / "events", authenticate=authenticate) as collector:
        async with connected(collector.uris[0], BearerAuthentication("admin")) as requester:
            found = {name for name, route in ROUTES.items() if not await refused(requester, route)}
    assert found == ALLOWED["admin"]


@pytest.mark.parametrize(
    ("make", "error", "why"),
    [
        (lambda: Grant(TOKEN, ()), ValueError, "name one at least"),
        (lambda: Grant(TOKEN, {"write"}), ValueError, "'write' is not a valid Role"),
        (lambda: Grant(TOKEN, "send"), TypeError, "not a single one"),
        (lambda: Grant(BearerAuthentication(""), {"send"}), ValueError, "the token is empty"),
        (lambda: Grant(CustomAuthentication("x", b""), {"send"}), TypeError, "auth must be"),
        (lambda: admit(), ValueError, "nobody could connect"),
        (lambda: admit(TOKEN), TypeError, "not BearerAuthentication"),
    ],
)
def test_grants_that_mean_nothing(make, error, why):
    """They are refused where they are made, so that none lets everybody or nobody in."""
    with pytest.raises(error, match=why):
        make()
    assert "s3cret" not in repr(Grant(TOKEN, {"send"}))
