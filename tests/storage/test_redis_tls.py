"""Redis behind TLS: certificates of both sides, through nothing but the address.

The server that Augury brings along speaks no TLS, so here something stands before it that does; if a server that
speaks TLS itself is on the path, that is used too.
"""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from augury import Client, Embedded, StorageError, task
from augury.backoff import Backoff
from augury.config import StorageConfig
from augury.storage.opening import open_storage
from augury.storage.redis_client import RedisClient
from augury.storage.server import RedisServer
from tests.storage.certificates import Certificates

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")

IMPATIENT = Backoff(patience_s=0)


@task
def double(number: int) -> int:
    return 2 * number


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


class Front:
    """Ends TLS before a server, and demands a certificate of clients."""

    def __init__(self, server: RedisServer, certificates: Certificates) -> None:
        self._backend = str(server.socket_path)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates.server, certificates.server_key)
        self._context.load_verify_locations(certificates.authority)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), ExitStack() as stack:
            stack.enter_context(connection)
            outside = stack.enter_context(self._context.wrap_socket(connection, server_side=True))
            inside = stack.enter_context(socket.socket(socket.AF_UNIX))
            inside.connect(self._backend)
            pump = threading.Thread(target=_pump, args=(inside, outside), daemon=True)
            pump.start()
            _pump(outside, inside)
            pump.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


def own_tls_server(folder: Path, certificates: Certificates) -> "tuple[subprocess.Popen[bytes], int]":
    # Debian's redis-tools has the server too: one program, which looks at the name it was called by.
    program = shutil.which("redis-server") or shutil.which("valkey-server") or shutil.which("redis-check-rdb")
    if program is None:
        pytest.skip("there is no redis-server on the path (Debian and Ubuntu: apt-get install redis-tools)")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    options = {
        "port": "0",
        "tls-port": str(port),
        "tls-cert-file": certificates.server,
        "tls-key-file": certificates.server_key,
        "tls-ca-cert-file": certificates.authority,
        "save": "",
        "dir": folder,
    }
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    process = subprocess.Popen(["redis-server", *words], executable=program, stdout=subprocess.PIPE)
    assert process.stdout is not None
    for line in process.stdout:
        if b"Ready to accept connections" in line:
            return process, port
    process.wait()
    pytest.skip("the redis-server on the path speaks no TLS")


@pytest.fixture(params=["front", "own"])
def port(request: pytest.FixtureRequest, tmp_path: Path, certificates: Certificates) -> Iterator[int]:
    if request.param == "own":
        process, port = own_tls_server(tmp_path, certificates)
        yield port
        process.kill()
        process.communicate()
        return
    with RedisServer(tmp_path / "redis") as server:
        front = Front(server, certificates)
        yield front.port
        front.close()


@pytest.fixture
def address(port: int, certificates: Certificates) -> str:
    options = {
        "ssl_ca_certs": certificates.authority,
        "ssl_certfile": certificates.client,
        "ssl_keyfile": certificates.client_key,
    }
    return f"rediss://127.0.0.1:{port}/0?" + "&".join(f"{name}={path}" for name, path in options.items())


def test_a_workflow_through_tls(address: str) -> None:
    with Client(redis=address, platform=Embedded(slots=2), observers=[], history=False) as client:
        assert client.compute([double(double(number)) for number in range(4)]) == [0, 4, 8, 12]


def refusal(address: str) -> str:
    with pytest.raises(StorageError) as caught:
        RedisClient(address, backoff=IMPATIENT).command("PING")
    return str(caught.value)


Change = Callable[[str, Certificates], str]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda address, _: address.partition("?")[0], "certificate"),
        (lambda address, files: address.replace(str(files.authority), str(files.client)), "certificate"),
        (lambda address, files: address.replace(str(files.authority), "/nowhere.pem"), "/nowhere.pem"),
        (lambda address, files: address.replace(str(files.authority), str(files.client_key)), "ssl_ca_certs"),
        (lambda address, _: address.replace("127.0.0.1", "localhost"), "certificate"),
    ],
    ids=["unknown authority", "another authority", "no such file", "no certificate in it", "another host"],
)
def test_what_is_wrong_with_a_certificate_is_told(
    address: str, certificates: Certificates, change: Change, told: str
) -> None:
    message = refusal(change(address, certificates))
    assert told in message
    assert "ssl_ca_certs" in message


def test_a_client_without_a_certificate_is_refused(port: int, certificates: Certificates) -> None:
    assert "Redis at rediss://127.0.0.1" in refusal(
        f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={certificates.authority}"
    )


def test_a_client_without_tls_is_told(port: int) -> None:
    assert "Redis at redis://127.0.0.1" in refusal(f"redis://127.0.0.1:{port}/0")


def test_an_unknown_option_of_an_address_is_told() -> None:
    with pytest.raises(StorageError, match="no_such_option"):
        open_storage(StorageConfig(redis="rediss://:s3cret@127.0.0.1:1/0?no_such_option=1"))
