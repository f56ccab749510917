"""Authentication metadata (Security/Authentication.md, Simple.md, Bearer.md).

The metadata are not encrypted: use an encrypted transport, or others can read the secrets.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from ..errors import MetadataError
from ..field_checks import TEXT, instance_of
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
_BEARER_HEAD: Final = encode_id_or_name(_BEARER_ID, _WHAT)

_new: Final = object.__new__
_set: Final = object.__setattr__


@attrs.frozen
class SimpleAuthentication:
    """A user name and a password.

    Attributes:
        username: At most 65535 bytes of UTF-8.
        password: Not shown by ``repr``.
    """

    username: str = attrs.field(validator=TEXT)
    password: str = attrs.field(repr=False, validator=TEXT)

    def encode(self) -> bytes:
        """Encode as the content of authentication metadata.

        Raises:
            MetadataError: The user name is too long, or a text cannot be encoded as UTF-8.
        """
        username = _encode_text(self.username, "user name")
        if len(username) > 0xFFFF:
            raise MetadataError(f"a user name must have at most 65535 bytes, not {len(username)}")
        size = len(username).to_bytes(2, "big")
        head = encode_id_or_name(_SIMPLE_ID, _WHAT)
        return head + size + username + _encode_text(self.password, "password")


@attrs.frozen
class BearerAuthentication:
    """A token.

    Attributes:
        token: Not shown by ``repr``.
    """

    token: str = attrs.field(repr=False, validator=TEXT)

    def encode(self) -> bytes:
        """Encode as the content of authentication metadata.

        Raises:
            MetadataError: The token cannot be encoded as UTF-8.
        """
        return encode_id_or_name(_BEARER_ID, _WHAT) + _encode_text(self.token, "token")


@attrs.frozen
class CustomAuthentication:
    """Authentication of another type, whose payload only the application understands.

    Attributes:
        auth_type: The type's name, 1 to 128 ASCII characters; or a number that is not assigned to
            a name.
        payload: Not shown by ``repr``.
    """

    auth_type: IdOrName = attrs.field(validator=instance_of(str, int))
    payload: bytes = attrs.field(default=b"", repr=False, validator=instance_of(bytes))

    def encode(self) -> bytes:
        """Encode as the content of authentication metadata.

        Raises:
            MetadataError: The type cannot be encoded, or it is simple or bearer: a peer would
                read the payload as that of simple or bearer authentication.
        """
        if self.auth_type in _SIMPLE or self.auth_type in _BEARER:
            raise MetadataError(
                f"CustomAuthentication cannot have the type {self.auth_type!r}: use "
                "SimpleAuthentication or BearerAuthentication"
            )
        return encode_id_or_name(self.auth_type, _WHAT) + self.payload


Authentication: TypeAlias = SimpleAuthentication | BearerAuthentication | CustomAuthentication
"""The credentials in a SETUP or a request."""


def decode_authentication(data: bytes) -> Authentication:
    """Decode the content of authentication metadata.

    Raises:
        MetadataError: The bytes end too soon, or a text is not UTF-8. The error text does not
            contain any secret.
    """
    if data[:1] == _BEARER_HEAD:
        # Nearly all are like this. Without the check of its type, a token takes half of the time.
        token = _new(BearerAuthentication)
        _set(token, "token", _decode_text(data[1:], "token"))
        return token
    auth_type, offset = decode_id_or_name(data, 0, _WHAT)
    if auth_type in _SIMPLE:
        start = offset + 2
        end = start + int.from_bytes(data[offset:start], "big")
        if start > len(data) or end > len(data):
            raise MetadataError("the user name of simple authentication is cut off")
        username = _decode_text(data[start:end], "user name")
        return SimpleAuthentication(username, _decode_text(data[end:], "password"))
    if auth_type in _BEARER:
        return BearerAuthentication(_decode_text(data[offset:], "token"))
    return CustomAuthentication(auth_type, data[offset:])


# `from None`: a UnicodeError contains the whole secret, and tracebacks would show it.
def _encode_text(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise MetadataError(f"the {what} cannot be encoded as UTF-8") from None


def _decode_text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise MetadataError(f"the {what} is not UTF-8") from None
