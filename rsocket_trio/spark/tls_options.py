"""TLS for data sources: `TlsSettings`, which Spark can send to its executors."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

import attrs

__all__ = ["TlsSettings"]

_PEM: Final = "-----BEGIN "


@attrs.frozen(kw_only=True)
class TlsSettings:
    """How to make a TLS context. The settings can be pickled; a context cannot.

    Attributes:
        prefix: What the names of the options begin with, for errors.
        authorities: The certificates to trust, in PEM format, in place of the system's. The driver
            reads the file, so executors do not need it.
        cert: The file of a certificate to present. It must be on the driver and the executors.
        key: The file of its key, if that is another one.
        insecure: Do not check the certificate of the server.
    """

    prefix: str = "tls"
    authorities: str | None = attrs.field(default=None, repr=False)
    cert: str | None = None
    key: str | None = None
    insecure: bool = False

    @classmethod
    def of(
        cls, prefix: str, *, ca: str | None, cert: str | None, key: str | None, insecure: bool
    ) -> TlsSettings:
        """Check options, and return the settings.

        Args:
            prefix: What the names of the options begin with.
            ca: A file of certificates in PEM format, or its text.
            cert: A file.
            key: A file.
            insecure: See `insecure`.

        Raises:
            ValueError: They do not go together, or a file cannot be used.
        """
        if key is not None and cert is None:
            raise ValueError(f"the option {prefix}.key needs {prefix}.cert")
        text = None if ca is None else _authorities(prefix, ca)
        settings = cls(prefix=prefix, authorities=text, cert=cert, key=key, insecure=insecure)
        settings.context()
        return settings

    @property
    def given(self) -> bool:
        """Whether an option says something about TLS."""
        return self.insecure or self.authorities is not None or self.cert is not None

    def context(self) -> ssl.SSLContext | None:
        """Return a new context for a client; ``None``, for the default, without options.

        Raises:
            ValueError: A file cannot be used.
        """
        if not self.given:
            return None
        try:
            context = ssl.create_default_context(cadata=self.authorities)
        except ssl.SSLError as error:
            raise ValueError(
                f"the option {self.prefix}.ca has no certificate in PEM format"
            ) from error
        if self.cert is not None:
            self._present(context)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def server_context(self) -> ssl.SSLContext | None:
        """Return a new context for a server; ``None`` without a certificate.

        With authorities, clients must present a certificate of theirs.

        Raises:
            ValueError: A file cannot be used.
        """
        if self.cert is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.authorities)
        if self.authorities is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        self._present(context)
        return context

    def _present(self, context: ssl.SSLContext) -> None:
        assert self.cert is not None
        for option, name in (("cert", self.cert), ("key", self.key)):
            if name is not None:
                _read(f"{self.prefix}.{option}", name)
        try:
            # Without a password: OpenSSL would ask for one at the terminal.
            context.load_cert_chain(self.cert, self.key, password=lambda: "")
        except ssl.SSLError as error:
            raise ValueError(
                f"the options {self.prefix}.cert and {self.prefix}.key must be a certificate and"
                f" its key, in PEM format and without a password: {error.reason or error}"
            ) from error


def _authorities(prefix: str, ca: str) -> str:
    return ca if ca.lstrip().startswith(_PEM) else _read(f"{prefix}.ca", ca)


def _read(option: str, name: str) -> str:
    try:
        return Path(name).read_text(encoding="ascii", errors="ignore")
    except OSError as error:
        raise ValueError(f"the option {option}: cannot read {name}: {error.strerror}") from error
    except ValueError as error:  # a null byte in the name
        raise ValueError(f"the option {option}: cannot read {name!r}: {error}") from error
