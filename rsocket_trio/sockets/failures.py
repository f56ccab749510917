"""Why a connection failed, in words: `describe_failure`."""

from __future__ import annotations

import re
import ssl
from typing import Final

__all__ = ["describe_failure"]

_NOT_TRUSTED: Final = frozenset({18, 19, 20, 21})
"""X509_V_ERR_... of OpenSSL: self-signed, alone or in the chain; no certificate of the issuer."""

_ALERT: Final = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_ALERT_(\w+)")
"""OpenSSL's name of an error that is an alert of the peer."""

_REMEDIES: Final = {
    "CERTIFICATE_REQUIRED": "it wants a certificate of ours (--cert, or an ssl_context)",
    "UNKNOWN_CA": "it does not trust the authority that issued our certificate",
    "NO_SHARED_CIPHER": "the two ends have no cipher in common",
    "HTTP_REQUEST": "the other end does not use TLS",
    "WRONG_VERSION_NUMBER": "the other end does not use TLS",
}


def describe_failure(error: BaseException) -> str:
    """Return what broke a stream, or kept it from being opened, as one line; never empty.

    An error without a text has it in its cause, and one of several attempts has theirs.
    """
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(describe_failure(each) for each in error.exceptions))
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup) or (cause is not None and not str(error)):
        return describe_failure(cause)
    if isinstance(error, ssl.SSLError):
        return _of_tls(error)
    if isinstance(error, OSError) and error.strerror:
        # trio puts the address in front, and our message already has it.
        return re.sub(r"^Error connecting to \(.*?\): ", "", error.strerror)
    return str(error) or type(error).__name__


def _of_tls(error: ssl.SSLError) -> str:
    reason = getattr(error, "reason", None) or ""  # not if the application made it
    if alert := _ALERT.fullmatch(reason):
        reason = alert[1]
        text = f"the other end sent the TLS alert {reason.lower().replace('_', ' ')}"
    else:
        # Without the line in the source of Python.
        text = re.sub(r" \(_ssl\.c:\d+\)$", "", error.strerror or str(error))
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _NOT_TRUSTED:
        return f"{text}: the authority that issued it is not trusted (--ca, or an ssl_context)"
    remedy = _REMEDIES.get(reason)
    return f"{text}: {remedy}" if remedy else text
