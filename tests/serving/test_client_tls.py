"""The client over TLS: only to servers that it was told to trust, and with a certificate of its own where they ask."""

import contextlib
import json
import ssl

import pytest
import trustme
from helpers.json_server import json_server
from helpers.run_recipe import run_kbert

from kbert.serving.client import ServingClient
from kbert.serving.rest_transport import ServingError

ANSWER = {"label": ["good"]}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """(certificate authority, dict of the client's arguments that suit it)"""
    directory, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    authority.cert_pem.write_to_path(directory / "root.pem")
    client = authority.issue_cert("client@example.org")
    client.private_key_pem.write_to_path(directory / "key.pem")
    client.cert_chain_pems[0].write_to_path(directory / "client.pem")
    own = str(directory / "client.pem"), directory / "key.pem"
    return authority, {"root_certificates": directory / "root.pem", "client_certificate": own}


@contextlib.contextmanager
def https_server(authority, asks_for_clients):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    if asks_for_clients:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    with json_server({"outputs": ANSWER}, tls=context) as (url, _):
        yield url


def test_a_server_is_trusted_by_its_certificate(authority):
    authority, arguments = authority
    root = arguments["root_certificates"]
    with https_server(authority, asks_for_clients=False) as url:
        assert ServingClient(url, "m", root_certificates=root).predict({"text": ["a"]}) == ANSWER
        with pytest.raises(ServingError, match=r"127.0.0.1:\d+.* cannot be reached: .*(?i:certificate|ssl|handshake)"):
            ServingClient(url, "m", tries=1).predict({"text": ["a"]})


def test_a_client_shows_its_certificate(authority):
    authority, arguments = authority
    with https_server(authority, asks_for_clients=True) as url:
        assert ServingClient(url, "m", **arguments).predict({"text": ["a"]}) == ANSWER
        with pytest.raises(ServingError, match="cannot be reached"):
            ServingClient(url, "m", root_certificates=arguments["root_certificates"], tries=1).predict({"text": ["a"]})


def test_the_recipe(authority, capsys):
    authority, arguments = authority
    root, (certificate, key) = arguments["root_certificates"], arguments["client_certificate"]
    with https_server(authority, asks_for_clients=True) as url:
        tls = ["--root-certificates", root, "--client-certificate", certificate, key]
        run_kbert("query", "a", "--url", url, "--model", "m", *tls)
    assert json.loads(capsys.readouterr().out) == {"label": "good"}


def test_certificates_that_are_none(tmp_path):
    with pytest.raises(OSError, match="root.pem"):
        ServingClient("https://localhost", "m", root_certificates=tmp_path / "root.pem")
