"""What ships is complete, and what is committed names no machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from botgrpo.rewards.registry import BUILTINS
from test_layers import imported

ROOT = Path(__file__).parents[1]
FOLDERS = ("rewards", "sandbox", "trainer", "benchmarks")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# Written in pieces, so that this file does not find itself.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"py" r"pi\.org",
            r"python" r"hosted\.org",
            r"npm" r"js\.(org|com)",
            r"yarn" r"pkg\.com",
            r"download\.py" r"torch\.org",
            r"deb\.deb" r"ian\.org",
            r"(?<![\w.])/ro" r"ot/",
            r"(?<![\w.])/ho" r"me/\w",
            r"(?<![\w.])/Us" r"ers/\w",
            r"(?<![\w.])/wo" r"rk/(main|shared)",
            r"/opt/" r"(wheels|pyp)",
        ]
    )
)


def committed() -> list[Path]:
    """Files of the checkout that git tracks or would add, without links."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in done.stdout.split("\0") if name]
    return [file for file in files if file.is_file() and not file.is_symlink()]


def offences(text: str) -> list[str]:
    lines = enumerate(text.splitlines(), start=1)
    return [f"{i}: {found[0]}" for i, line in lines if (found := FORBIDDEN.search(line))]


def test_no_committed_file_names_a_registry_host_or_a_path_of_somebodys_machine() -> None:
    found = []
    for file in committed():
        content = file.read_bytes()
        if b"\0" not in content:
            name = file.relative_to(ROOT)
            found += [f"{name}:{where}" for where in offences(content.decode("utf-8", "replace"))]
    assert found == []


@pytest.mark.parametrize("start", ["https://py" + "pi.org/simple", "cache = /ro" + "ot/.cache"])
def test_the_search_for_hosts_and_paths_can_find_one(start: str) -> None:
    assert len(offences(f"fine\n{start}\n/tmp/fine\n")) == 1


def test_npm_lock_files_carry_hashes_and_no_addresses() -> None:
    locks = [file for file in committed() if file.name == "package-lock.json"]
    assert locks
    for lock in locks:
        packages = json.loads(lock.read_text("utf-8"))["packages"]
        dependencies = {name: entry for name, entry in packages.items() if name}
        assert dependencies
        for name, entry in dependencies.items():
            assert "resolved" not in entry, f"{lock}: {name}"
            assert entry["integrity"].startswith("sha512-"), f"{lock}: {name}"


def test_constraints_are_exact_versions_and_nothing_else() -> None:
    exact = re.compile(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.]+")  # no build tag, address or marker
    for name in ("core", "trl", "verl", "vllm", "math"):
        lines = (ROOT / f"constraints/{name}.txt").read_text("utf-8").splitlines()
        pins = [line for line in lines if not line.startswith("#")]
        assert [pin for pin in pins if not exact.fullmatch(pin)] == []
        names = [re.sub(r"[-_.]+", "-", pin.partition("==")[0]).lower() for pin in pins]
        assert len(set(names)) == len(names)
        assert ("math-verify" if name == "math" else "torch") in names


def test_every_core_and_development_dependency_is_pinned() -> None:
    lines = (ROOT / "constraints/core.txt").read_text("utf-8").splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    wanted = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    names = {re.split(r"[<>=!~;\[ ]", requirement)[0].lower() for requirement in wanted}
    assert names <= pinned


def test_every_third_party_import_of_the_core_is_declared() -> None:
    """Optional libraries have homes of their own (test_layers.py); the rest must be in the core."""
    extras = PROJECT["optional-dependencies"]
    declared = PROJECT["dependencies"] + [
        r for requirements in extras.values() for r in requirements
    ]
    names = {re.split(r"[<>=!~;\[ ]", requirement)[0].lower() for requirement in declared}
    providers = metadata.packages_distributions()
    missing = set()
    for file in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        tops = {name.partition(".")[0] for _, name in imported(file.read_text("utf-8"))}
        for top in tops - {"botgrpo"} - sys.stdlib_module_names:
            by = {name.lower().replace("_", "-") for name in providers.get(top, [top])}
            if not by & names:
                missing.add(f"{file.relative_to(ROOT)}: {top}")
    assert missing == set()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution as a release is."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bin/ of a new environment that holds the wheel; libraries are borrowed from this one.

    A .pth line adds a folder without reading the .pth files in it, so the borrowed site-packages
    bring no editable install of this checkout.
    """
    home = tmp_path_factory.mktemp("user") / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index"]
    done = subprocess.run(
        [*pip, "--no-deps", str(wheel)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def outside(installed: Path, *command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command of the new environment in a folder that is no checkout."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(installed / command[0]), *command[1:]],
        cwd=installed.parents[1],
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_four_folders_and_nothing_else(wheel: Path) -> None:
    sources = {file.relative_to(ROOT).as_posix() for file in committed()}
    wanted = {f"botgrpo/{name}" for name in sources if name.startswith(FOLDERS)}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in held} == {"botgrpo"}
    assert held == wanted
    for kind in ("*.py", "*.mjs", "package-lock.json", "py.typed", "*.toml"):
        assert any(Path(name).match(kind) for name in held), f"no {kind} at all"


@pytest.mark.slow
def test_the_installed_wheel_is_imported_from_its_own_environment(installed: Path) -> None:
    done = outside(installed, "python", "-c", "import botgrpo.rewards as r; print(r.__file__)")
    assert done.stdout.startswith(str(installed.parent)), done.stdout + done.stderr


@pytest.mark.slow
def test_the_installed_command_helps_and_lists_the_rewards(installed: Path) -> None:
    done = outside(installed, "botgrpo", "--help")
    assert done.returncode == 0, done.stderr
    assert "bench" in done.stdout
    done = outside(installed, "botgrpo", "rewards", "list")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in BUILTINS)


@pytest.mark.slow
def test_the_installed_command_plans_the_quickstart_from_its_own_data(installed: Path) -> None:
    done = outside(installed, "botgrpo", "bench", "quickstart", "--plan")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_installed_command_judges_a_component_in_the_sandbox(installed: Path) -> None:
    code = "export default function A() { return <p>hi</p>; }"
    rollout = {"id": "r1", "group": "g", "prompt": "", "completion": code, "reference": {}}
    command = ("botgrpo", "score", "--reward", "react.compile", "--in", "-", "--out", "-")
    done = outside(installed, *command, stdin=json.dumps(rollout) + "\n")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "ok"
