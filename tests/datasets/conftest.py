"""Fixtures for the tests of the UCI loader: a folder, no network, and an imitated OpenML."""

import gzip
import socket
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from sklearn.datasets import _openml

from tests.datasets.fake_openml import FakeOpenML
from tests.datasets.local_server import listening


@pytest.fixture
def isolated(monkeypatch, tmp_path):
    """Take away the folder, the downloads of earlier runs, the proxy and the network."""

    def connect(sock, address):
        assert address[0] == "127.0.0.1", f"a test tried to reach {address}"
        return real_connect(sock, address)

    def look_up(host, *args, **kwargs):
        assert host in ("127.0.0.1", b"127.0.0.1"), f"a test tried to look up {host}"
        return real_look_up(host, *args, **kwargs)

    real_connect, real_look_up = socket.socket.connect, socket.getaddrinfo
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    monkeypatch.delenv("COUPLEDGP_DATA", raising=False)
    monkeypatch.setattr(_openml.time, "sleep", lambda seconds: None)


@pytest.fixture
def openml(monkeypatch):
    def redirected(request):
        parts = urlsplit(request.full_url)
        assert parts.hostname in ("www.openml.org", "api.openml.org")
        return urlopen(Request(fake.url + parts.path, headers=dict(request.header_items())))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            fake.requests.append(self.path)
            body = fake.pages.get(self.path)
            status = fake.status if body is not None or fake.status != 200 else 412
            body = gzip.compress(body or b"")
            self.send_response(status)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with listening(Handler) as url:
        fake = FakeOpenML(url)
        monkeypatch.setattr(_openml, "urlopen", redirected)
        yield fake


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data" / "uci").mkdir(parents=True)
    return tmp_path / "data"
