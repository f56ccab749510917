"""Metadata extensions of RSocket, sans-IO: MIME ids, composite metadata, routing and others.

Reading any bytes raises no other error than `rsocket_trio.MetadataError`.
"""

from __future__ import annotations

from .authentication import (
    Authentication,
    BearerAuthentication,
    CustomAuthentication,
    SimpleAuthentication,
    decode_authentication,
)
from .builder import ExtraEntry, Metadata
from .composite import CompositeMetadata, MetadataEntry
from .data_mime_types import AcceptMimeTypes, DataMimeType
from .mime_types import MIME, IdOrName, WellKnownMimeType
from .routing import decode_route, encode_route, find_route, route_metadata
from .tracing_zipkin import Sampling, ZipkinTrace

__all__ = [
    "MIME",
    "AcceptMimeTypes",
    "Authentication",
    "BearerAuthentication",
    "CompositeMetadata",
    "CustomAuthentication",
    "DataMimeType",
    "ExtraEntry",
    "IdOrName",
    "Metadata",
    "MetadataEntry",
    "Sampling",
    "SimpleAuthentication",
    "WellKnownMimeType",
    "ZipkinTrace",
    "decode_authentication",
    "decode_route",
    "encode_route",
    "find_route",
    "route_metadata",
]
