"""A router on a made-up connection."""

import pytest

from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.responder import Setup
from rsocket_trio.transports.base import TransportInfo


def make_setup(data=MIME.JSON, metadata=MIME.COMPOSITE_METADATA):
    return Setup(
        data_mime_type=data,
        metadata_mime_type=metadata,
        keepalive_interval=1.0,
        max_lifetime=2.0,
        transport=TransportInfo(scheme="memory"),
    )


@pytest.fixture
def bind():
    """Bind a router to a connection of these MIME types, with any object as the requester."""

    async def bind(router, *, requester=None, **mime_types):
        return await router.accept(make_setup(**mime_types), requester)

    return bind
