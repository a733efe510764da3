"""Certificates for tests: an authority, a server for 127.0.0.1, a client."""

import subprocess
from pathlib import Path


class Certificates:
    """Files of an authority and of those that it vouches for, made by openssl."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.authority, self._authority_key = self._paths("authority")
        _openssl(
            "req", "-x509", *_NEW_KEY, "-keyout", self._authority_key, "-out", self.authority, "-subj", "/CN=tests"
        )
        self.server, self.server_key = self._vouched("server", "subjectAltName=IP:127.0.0.1")
        self.client, self.client_key = self._vouched("client", "extendedKeyUsage=clientAuth")

    def _paths(self, name: str) -> tuple[Path, Path]:
        return self._folder / f"{name}.pem", self._folder / f"{name}.key"

    def _vouched(self, name: str, extension: str) -> tuple[Path, Path]:
        certificate, key = self._paths(name)
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extensions.write_text(extension)
        _openssl("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        signing = ("-CA", self.authority, "-CAkey", self._authority_key, "-CAcreateserial", "-extfile", extensions)
        _openssl("x509", "-req", "-in", request, "-out", certificate, *signing)
        return certificate, key


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)
