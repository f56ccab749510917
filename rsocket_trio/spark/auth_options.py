"""The options of authentication: `read_authentication`."""

from __future__ import annotations

from .. import Authentication, BearerAuthentication, SimpleAuthentication
from .options import Options

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
    if token is not None:
        if username is not None:
            raise ValueError("give auth.token, or auth.username and auth.password, not both")
        return BearerAuthentication(token)
    if username is not None and password is not None:
        return SimpleAuthentication(username, password)
    return None
