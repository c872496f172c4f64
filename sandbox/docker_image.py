"""The worker's image, named after its content and built when it is first needed.

From `worker/Dockerfile`; where its base cannot be pulled, from this machine's own node and the
packages in the cache, as a root that holds nothing else: no shell, no package manager.
"""

from __future__ import annotations

import contextlib
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from botgrpo.sandbox import install

_BASE_IMAGE = "node:22-bookworm-slim"
_BASE_LABEL = "botgrpo.base"


def tag() -> str:
    """`botgrpo-worker:<content hash>`."""
    return f"botgrpo-worker:{install.content_hash()}"


def ensure(client: Any) -> str:
    """Build the image unless the engine has it; returns its base (`host` if imported).

    Many processes may call at once. Raises SandboxUnavailable if node or npm is missing.
    """
    import docker.errors

    with install.locked("image"):
        with contextlib.suppress(docker.errors.ImageNotFound):
            return str(client.images.get(tag()).labels.get(_BASE_LABEL, ""))
        try:
            return _build(client)
        except docker.errors.DockerException:
            return _import(client)  # no registry within reach: the host has all that is needed


def _build(client: Any) -> str:
    import docker.errors

    try:
        client.images.get(_BASE_IMAGE)
    except docker.errors.ImageNotFound:
        client.images.pull(_BASE_IMAGE)
    client.images.build(
        path=str(install.WORKER),
        tag=tag(),
        buildargs={"BASE_IMAGE": _BASE_IMAGE},
        labels={_BASE_LABEL: _BASE_IMAGE},
        rm=True,
    )
    return _BASE_IMAGE


def _import(client: Any) -> str:
    repository, version = tag().split(":")
    changes = [
        "ENV PATH=/usr/bin",
        "WORKDIR /opt/sandbox",
        "USER 65534:65534",
        f"LABEL {_BASE_LABEL}=host",
    ]
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            _host_root(tar)
        file.flush()
        client.api.import_image_from_file(
            file.name, repository=repository, tag=version, changes=changes
        )
    return "host"


def _host_root(tar: tarfile.TarFile) -> None:
    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    for name in ("tmp", "etc", "proc", "sys", "dev", "opt", "usr"):
        folder = tarfile.TarInfo(name)
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
        tar.addfile(folder)
    nobody = b"nobody:x:65534:65534::/:/\n"
    passwd = tarfile.TarInfo("etc/passwd")
    passwd.size, passwd.mode = len(nobody), 0o644
    tar.addfile(passwd, BytesIO(nobody))
    node = (Path("/usr/bin/node"), install.find_node())
    for where, file in [node, *install.node_libraries()]:
        tar.add(file, arcname=str(where).lstrip("/"), filter=plain)
    tar.add(install.worker_home(), arcname="opt/sandbox", filter=plain)
