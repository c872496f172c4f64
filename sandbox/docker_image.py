"""The workers' images, named after their content and built when first needed.

From `worker/Dockerfile`, a stage for each program; where its base cannot be pulled, from this
machine's own node and the packages in the cache, as a root that holds nothing else: no shell, no
package manager.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from botgrpo.sandbox import install
from botgrpo.sandbox.base import Program

_BASE_IMAGE = "node:22-bookworm-slim"
_BASE_LABEL = "botgrpo.base"


def tag(program: Program) -> str:
    """`botgrpo-<program>:<content hash>`."""
    digest = hashlib.sha256(install.content_hash().encode())
    for where, file in program.files():
        stat = file.stat()
        digest.update(f"{where}:{stat.st_size}:{stat.st_mtime_ns};".encode())
    return f"botgrpo-{program.name}:{digest.hexdigest()[:16]}"


def ensure(client: Any, program: Program) -> tuple[str, str]:
    """Build the image unless the engine has it; returns its name and base (`host` if imported).

    Many processes may call at once. Raises SandboxUnavailable if node or npm is missing, or what
    else the program needs.
    """
    import docker.errors

    name = tag(program)
    with install.locked("image"):
        with contextlib.suppress(docker.errors.ImageNotFound):
            return name, str(client.images.get(name).labels.get(_BASE_LABEL, ""))
        try:
            return name, _build(client, program, name)
        except docker.errors.DockerException:
            return name, _import(client, program, name)  # no registry: the host has all it takes


def _build(client: Any, program: Program, name: str) -> str:
    import docker.errors

    try:
        client.images.get(_BASE_IMAGE)
    except docker.errors.ImageNotFound:
        client.images.pull(_BASE_IMAGE)
    with tempfile.TemporaryDirectory() as temporary:
        context = Path(temporary) / "context"
        shutil.copytree(install.WORKER, context)
        for where, folder in program.files():
            if folder.is_dir() and where.parent == Path("/opt"):
                shutil.copytree(folder, context / where.name)
        client.images.build(
            path=str(context),
            tag=name,
            target=program.name,
            buildargs={"BASE_IMAGE": _BASE_IMAGE},
            labels={_BASE_LABEL: _BASE_IMAGE},
            rm=True,
        )
    return _BASE_IMAGE


def _import(client: Any, program: Program, name: str) -> str:
    repository, version = name.split(":")
    changes = [
        "ENV PATH=/usr/bin",
        "WORKDIR /opt/sandbox",
        "USER 65534:65534",
        f"LABEL {_BASE_LABEL}=host",
    ]
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            _host_root(tar, program)
        file.flush()
        client.api.import_image_from_file(
            file.name, repository=repository, tag=version, changes=changes
        )
    return "host"


def _host_root(tar: tarfile.TarFile, program: Program) -> None:
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
    for where, file in dict([node, *install.node_libraries(), *program.files()]).items():
        tar.add(file, arcname=str(where).lstrip("/"), filter=plain)
    tar.add(install.worker_home(), arcname="opt/sandbox", filter=plain)
