"""The options of authentication: `read_authentication`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .options import Options

if TYPE_CHECKING:
    from .. import Authentication

__all__ = ["read_authentication"]


def read_authentication(options: Options) -> Authentication | None:
    """Return the credentials that the SETUP of a connection has; they can be pickled.

    These are the options ``auth.token``, or ``auth.username`` and ``auth.password``.

    Raises:
        ValueError: They do not go together.
    """
    token = options.text("auth.token", None)
    username, password = options.text("auth.username", None), options.text("auth.password", None)
    if (username is None) != (password is None):
        raise ValueError("the options auth.username and auth.password go together")
    if token is not None and username is not None:
        raise ValueError("give auth.token, or auth.username and auth.password, not both")
    if token is None and username is None:
        return None
    from .. import BearerAuthentication, SimpleAuthentication

    if token is not None:
        return BearerAuthentication(token)
    assert username is not None
    assert password is not None
    return SimpleAuthentication(username, password)
