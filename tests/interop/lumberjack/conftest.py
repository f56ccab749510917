"""Fixtures of the tests with peers that speak Lumberjack."""

from __future__ import annotations

import importlib
import ssl
from pathlib import Path

import attrs
import pytest
import trustme


def _support(module):
    return importlib.import_module(f"interop_support.{module}")


@pytest.fixture(scope="session")
def received():
    """The class ``Received`` of ``../support/receiving.py``: a handler that keeps events."""
    return _support("receiving").Received


@pytest.fixture(scope="session")
def receiving():
    """``async with receiving(handler, uri, **settings)``: see ``../support/receiving.py``."""
    return _support("receiving").receiving


@pytest.fixture(scope="session")
def kept_address():
    """An address for a server that will listen on the same port again."""
    return _support("receiving").KEPT_ADDRESS


@pytest.fixture(scope="session")
def programs():
    """The module ``../support/processes.py``."""
    return _support("processes")


@pytest.fixture(scope="session")
def installed():
    """The module ``../support/installed.py``."""
    return _support("installed")


@pytest.fixture
def filebeat(installed, tmp_path):
    """``filebeat(*uris, **output)``: a Filebeat that ships to these servers."""
    installed.require("filebeat")

    def make(*uris, **output):
        return _support("filebeat").Filebeat(tmp_path, uris, **output)

    return make


@pytest.fixture
def go_lumber_programs(installed):
    """The directory of the programs that use go-lumber."""
    installed.require("go-lumber")
    return installed.LUMBER


@attrs.frozen
class Certificates:
    """Certificates of one authority for both ends, as files in PEM format and as contexts.

    Attributes:
        authority: The certificate of the authority.
        client: A certificate for clients; its common name is "shipper".
        client_key: The key of it.
        pair: Certificate and key of a server, in one file.
        server: Demands certificates of clients.
        server_only: Demands none.
        shipper: The context of a client with the certificate.
    """

    authority: Path
    client: Path
    client_key: Path
    pair: Path
    server: ssl.SSLContext
    server_only: ssl.SSLContext
    shipper: ssl.SSLContext


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """An authority, and certificates of it for a server and a client."""
    directory = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    client = authority.issue_cert("beats@example.org", common_name="shipper")
    server = authority.issue_cert("127.0.0.1", "localhost")
    files = {
        name: directory / f"{name}.pem" for name in ("authority", "client", "client_key", "pair")
    }
    authority.cert_pem.write_to_path(files["authority"])
    client.cert_chain_pems[0].write_to_path(files["client"])
    client.private_key_pem.write_to_path(files["client_key"])
    server.private_key_and_cert_chain_pem.write_to_path(files["pair"])
    contexts = []
    for mode in (ssl.CERT_REQUIRED, ssl.CERT_NONE):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.configure_cert(context)
        authority.configure_trust(context)
        context.verify_mode = mode
        contexts.append(context)
    shipper = ssl.create_default_context()
    client.configure_cert(shipper)
    authority.configure_trust(shipper)
    return Certificates(server=contexts[0], server_only=contexts[1], shipper=shipper, **files)


@pytest.fixture(scope="session")
def receivers():
    """The module ``../support/receivers.py``."""
    return _support("receivers")
