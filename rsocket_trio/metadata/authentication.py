"""Who is asking: authentication metadata (Security/Authentication.md, Simple.md, Bearer.md).

Nothing here is encrypted: the transport must be, or anybody on the way reads the secrets.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from ..errors import MetadataError
from .mime_types import IdOrName, decode_id_or_name, encode_id_or_name

__all__ = [
    "Authentication",
    "BearerAuthentication",
    "CustomAuthentication",
    "SimpleAuthentication",
    "decode_authentication",
]

# Security/WellKnownAuthTypes.md.
_SIMPLE_ID: Final = 0x00
_BEARER_ID: Final = 0x01
_SIMPLE: Final = (_SIMPLE_ID, "simple")
_BEARER: Final = (_BEARER_ID, "bearer")
_WHAT: Final = "type of authentication"


@attrs.frozen
class SimpleAuthentication:
    """A user name and a password.

    Attributes:
        username: At most 65535 bytes of UTF-8.
        password: Not shown by ``repr``.
    """

    username: str
    password: str = attrs.field(repr=False)

    def encode(self) -> bytes:
        """Encode as the content of authentication metadata.

        Raises:
            MetadataError: The user name is too long, or one of both is not writable as UTF-8.
        """
        username = _encode_text(self.username, "user name")
        if len(username) > 0xFFFF:
            raise MetadataError(f"a user name has at most 65535 bytes, not {len(username)}")
        size = len(username).to_bytes(2, "big")
        head = encode_id_or_name(_SIMPLE_ID, _WHAT)
        return head + size + username + _encode_text(self.password, "password")


@attrs.frozen
class BearerAuthentication:
    """A token.

    Attributes:
        token: Not shown by ``repr``.
    """

    token: str = attrs.field(repr=False)

    def encode(self) -> bytes:
        """Encode as the content of authentication metadata.

        Raises:
            MetadataError: The token cannot be written as UTF-8.
        """
        return encode_id_or_name(_BEARER_ID, _WHAT) + _encode_text(self.token, "token")


@attrs.frozen
class CustomAuthentication:
    """Authentication of another type, whose payload only the application understands.

    Attributes:
        auth_type: The type's name, 1 to 128 ASCII characters; or a number that nobody has
            assigned yet.
        payload: Not shown by ``repr``.
    """

    auth_type: IdOrName
    payload: bytes = attrs.field(default=b"", repr=False)

    def encode(self) -> bytes:
        """Encode as the content of authentication metadata.

        Raises:
            MetadataError: The type cannot be written, or it is simple or bearer: a peer would
                take the payload for theirs.
        """
        if self.auth_type in _SIMPLE or self.auth_type in _BEARER:
            raise MetadataError("use SimpleAuthentication or BearerAuthentication")
        return encode_id_or_name(self.auth_type, _WHAT) + self.payload


Authentication: TypeAlias = SimpleAuthentication | BearerAuthentication | CustomAuthentication
"""What a SETUP or a request says of who sends it."""


def decode_authentication(data: bytes) -> Authentication:
    """Decode the content of authentication metadata.

    Raises:
        MetadataError: The bytes end too soon, or what should be UTF-8 is not. Its text holds
            nothing of a secret.
    """
    auth_type, offset = decode_id_or_name(data, 0, _WHAT)
    if auth_type in _SIMPLE:
        start = offset + 2
        end = start + int.from_bytes(data[offset:start], "big")
        if start > len(data) or end > len(data):
            raise MetadataError("the user name of simple authentication is cut short")
        username = _decode_text(data[start:end], "user name")
        return SimpleAuthentication(username, _decode_text(data[end:], "password"))
    if auth_type in _BEARER:
        return BearerAuthentication(_decode_text(data[offset:], "token"))
    return CustomAuthentication(auth_type, data[offset:])


# `from None`: a UnicodeError carries the whole secret, and so would a traceback that shows it.
def _encode_text(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise MetadataError(f"the {what} cannot be written as UTF-8") from None


def _decode_text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise MetadataError(f"the {what} is not UTF-8") from None
