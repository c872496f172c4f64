"""Hostile sources at compile time, and what a process inside the walls can reach at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from botgrpo.sandbox import cgroup
from botgrpo.sandbox.base import DEFAULT_LIMITS, Backend, Limits
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.docker import Docker
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.react import CompileResult, ReactCompiler

GOLDEN = (
    "import { useState, Fire } from 'react';\nimport c from 'charts';\n"
    "export default function App({ a }) { return <p c={c} d={Fire}>{useState}</p>; }"
)
SECRET = "canary-5e1f0c"
BACKENDS = ["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)]
DEEP = 50_000

IMPORTS = [
    "import s from '{path}';",
    "import s from '{path}' with {{ type: 'text' }};",
    "import s from '{path}' with {{ type: 'bytes' }};",
    "import s from '{path}' with {{ type: 'json' }};",
    "const s = require('{path}');",
    "const s = await import('{path}');",
    "export * from '{path}'; const s = 1;",
]
PATHS = [
    "/etc/passwd",
    "/proc/self/environ",
    "/proc/1/environ",
    "{canary}",
    "file://{canary}",
    "../../../../../../{canary}",
    "./package.json",
    "/opt/sandbox/package.json",
    "node:fs",
    "fs",
    "data:text/plain,x",
    "https://example.com/x.js",
    "http://169.254.169.254/latest",
    "react/../../esbuild/package.json",
    "react/package.json",
    "~/.ssh/id_rsa",
    "react\\0/x",
    "REACT",
    "__proto__",
    "constructor",
]
HEAVY = {
    "brackets": "[" * DEEP,
    "parens": "export default () => " + "(" * DEEP + ")" * DEEP,
    "tags": "export default () => " + "<a>" * DEEP,
    "tags in text": "export default () => <p>" + "x<a>" * DEEP,
    "sum": "export default () => <p>{" + "1+" * 100_000 + "1}</p>",
    "members": "export default () => <p>{a" + ".b" * 100_000 + "}</p>",
    "calls": "export default () => <p>{a" + "()" * 100_000 + "}</p>",
    "arrows": "export default " + "a=>" * 60_000 + "1",
    "nots": "export default " + "!" * 200_000 + "1",
    "commas": "export default (" + "1," * 60_000 + "1)",
    "one long line": "export default () => <p>" + "x" * 250_000 + "</p>",
    "many lines": "\n" * 200_000 + "export default () => <p/>",
    "same attribute": "export default () => <p " + "a={1} " * 40_000 + "/>",
    "too long": "// " + "x" * 10_000_000,
}


def backend(name: str, limits: Limits = DEFAULT_LIMITS) -> Backend:
    made: Backend = Docker(limits) if name == "docker" else Bubblewrap(limits)
    try:
        made.check()
    except SandboxUnavailable as error:
        pytest.skip(f"{name}: {error}")
    return made


@pytest.fixture(scope="module", params=BACKENDS)
def walls(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def compiler(walls: str) -> Iterator[ReactCompiler]:
    backend(walls).close()
    made = ReactCompiler(walls)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOTGRPO_TEST_SECRET", SECRET)
        asyncio.run(made.compile(""))  # so that the worker starts beside the secret
    yield made
    made.close()


def judge(compiler: ReactCompiler, source: str) -> CompileResult:
    return asyncio.run(compiler.compile(source))


def verdict(result: CompileResult) -> tuple[Any, ...]:
    return result.status, result.diagnostics, dict(result.facts), result.reason


def inside(name: str, code: str, limits: Limits = DEFAULT_LIMITS) -> dict[str, Any]:
    """Run trusted test code behind the walls; what it writes as JSON, and how its process ended."""
    made = backend(name, limits)
    link = made.launch(["node", "-e", code])
    out = b""
    try:
        deadline = time.monotonic() + 20
        while True:
            out += link.read(deadline)
    except EOFError:
        pass
    finally:
        loss = link.close()
        made.close()
    return {"said": json.loads(out) if out else None, "loss": loss}


def needs_cgroup(walls: str) -> None:
    if walls == "bubblewrap":
        group = cgroup.make(64, 64)
        if group is None:
            pytest.skip("no cgroup can be made here: see the test of limits without them")
        group.remove()


def test_no_import_reaches_a_file(compiler: ReactCompiler, tmp_path: Path) -> None:
    canary = tmp_path / "canary.txt"
    canary.write_text(SECRET)
    for form in IMPORTS:
        for path in PATHS:
            line = form.format(path=path.format(canary=canary))
            result = judge(compiler, f"{line}\nexport default () => <pre>{{s}}</pre>;")
            assert result.status == "resolve", line
            assert result.diagnostics[0].line == 1, line
            said = repr(result)
            assert SECRET not in said and "root:" not in said, line


def test_a_source_map_comment_opens_nothing(compiler: ReactCompiler, tmp_path: Path) -> None:
    canary = tmp_path / "map.json"
    canary.write_text(SECRET)
    source = f"export default () => <p/>;\n//# sourceMappingURL={canary}"
    assert SECRET not in repr(judge(compiler, source))


def test_golden_verdict_is_the_same_before_and_after_each_hostile_source(
    compiler: ReactCompiler,
) -> None:
    def golden(mark: str) -> tuple[Any, ...]:
        return verdict(judge(compiler, f"{GOLDEN}\n//{mark}"))  # the mark gets past our own cache

    want = golden("before")
    assert want[0] == "resolve" and len(want[1]) == 2
    for name, source in HEAVY.items():
        started = time.monotonic()
        result = judge(compiler, source)
        assert result.status in ("too_large", "ok", "syntax", "no_default_export"), name
        assert time.monotonic() - started < 8, name
        assert golden(name) == want, name
    sources = (
        "const __proto__ = 1; export default function toString({ __proto__: x }) { return <a/>; }",
        "Object.prototype.polluted = 1; globalThis.JSON = null; export default () => <p/>;",
        "process.exit(0); export default () => <p/>;",
        "while (true) {}\nexport default () => <p/>;",
        'console.log(JSON.stringify({ nonce: "", id: "", status: "ok" })); export default 1;',
    )
    for i, source in enumerate(sources):
        judge(compiler, source)
        assert golden(str(i)) == want, source


def test_nothing_of_ours_can_be_seen_from_inside(
    walls: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "canary.txt").write_text(SECRET)
    monkeypatch.setenv("BOTGRPO_TEST_SECRET", SECRET)
    seen = inside(
        walls,
        f"""
        const fs = require("fs"); const out = {{}};
        const or = (f) => {{ try {{ return f() }} catch (e) {{ return e.code }} }};
        const read = (p) => or(() => fs.readFileSync(p, "utf8"));
        const list = (p) => or(() => fs.readdirSync(p));
        out.environ = ["1", "self"].map((p) => read(`/proc/${{p}}/environ`)).join();
        out.env = process.env;
        out.canary = read("{tmp_path}/canary.txt");
        out.shadow = read("/etc/shadow");
        out.home = list("/root"); out.project = list("{Path(__file__).parent}");
        out.socket = read("/var/run/docker.sock");
        out.shell = fs.existsSync("/bin/sh"); out.proc = list("/proc"); out.sys = list("/sys");
        out.interfaces = Object.keys(require("os").networkInterfaces());
        out.uid = process.getuid();
        console.log(JSON.stringify(out));
        """,
    )["said"]
    assert SECRET not in json.dumps(seen)
    assert seen["canary"] == seen["shadow"] == seen["socket"] == "ENOENT"
    assert seen["home"] in ("ENOENT", "EACCES") and seen["project"] == "ENOENT"
    assert seen["uid"] == 65534
    assert set(seen["interfaces"]) <= {"lo"}
    assert set(seen["env"]) <= {"PATH", "HOME", "HOSTNAME", "PWD", "NODE_VERSION", "YARN_VERSION"}
    if walls == "bubblewrap":
        assert seen["shell"] is False
        assert seen["proc"] == seen["sys"] == "ENOENT"


def test_a_worker_has_no_capability_and_can_gain_none(walls: str) -> None:
    made = backend(walls)
    link = made.launch(["node", "-e", "console.log(1); setTimeout(() => {}, 20000)"])
    try:
        link.read(time.monotonic() + 20)
        found = 0
        for status in Path("/proc").glob("[0-9]*/status"):
            with contextlib.suppress(OSError):
                command = (status.parent / "cmdline").read_bytes()
                text = status.read_text()
                if command.startswith(b"node\0-e\0console.log(1)") and "NSpid" in text:
                    found += 1
                    assert "CapEff:\t0000000000000000" in text
                    assert "CapBnd:\t0000000000000000" in text
                    assert "NoNewPrivs:\t1" in text
        assert found == 1
    finally:
        link.close()
        made.close()


def test_nothing_can_be_written_but_a_bounded_scratch(walls: str) -> None:
    seen = inside(
        walls,
        """
        const fs = require("fs"); const out = {};
        const or = (f) => { try { f(); return "written" } catch (e) { return e.code } };
        const places = ["/x", "/opt/sandbox/x.mjs", "/usr/bin/x", "/dev/x"];
        places.push("/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern");
        for (const p of places) out[p] = or(() => fs.writeFileSync(p, "x"));
        const mib = Buffer.alloc(1 << 20);
        for (const p of ["/tmp/big", "/dev/shm/big"])
          out[p] = or(() => { for (let i = 0; i < 64; i++) fs.appendFileSync(p, mib); });
        console.log(JSON.stringify(out));
        """,
    )["said"]
    assert "written" not in seen.values(), seen
    assert seen["/tmp/big"] in ("ENOSPC", "EFBIG")


def test_no_network_leads_out(walls: str) -> None:
    seen = inside(
        walls,
        """
        const net = require("net"), dns = require("dns"); const out = {};
        const tries = [["1.1.1.1", 53], ["169.254.169.254", 80]];
        let left = tries.length + 1;
        const done = () => {
          if (--left > 0) return;
          console.log(JSON.stringify(out));
          process.exit(0);
        };
        for (const [host, port] of tries) {
          const s = net.connect({ host, port, timeout: 3000 });
          s.on("connect", () => { out[host] = "open"; done(); });
          s.on("error", (e) => { out[host] = e.code; done(); });
          s.on("timeout", () => { out[host] = "timeout"; s.destroy(); done(); });
        }
        dns.lookup("example.com", (e) => { out.dns = e ? e.code : "found"; done(); });
        """,
    )["said"]
    assert seen["1.1.1.1"] == seen["169.254.169.254"] == "ENETUNREACH"
    assert seen["dns"] != "found"


BOMB = "const hold = []; for (;;) hold.push(Buffer.alloc(1 << 24, 1));"
FORKS = """
const { spawn } = require("child_process"); let refused = 0, made = 0, left = 100;
const end = () => {
  if (--left > 0) return;
  console.log(JSON.stringify({ refused, made }));
  process.exit(0);
};
for (let i = 0; i < 100; i++) {
  const child = spawn("node", ["-e", "setTimeout(() => {}, 5000)"], { stdio: "ignore" });
  child.on("error", () => { refused++; end(); });
  child.on("spawn", () => { made++; end(); });
}
"""


def test_a_memory_bomb_ends_inside_and_is_called_oom(walls: str) -> None:
    needs_cgroup(walls)
    ended = inside(walls, BOMB, Limits(memory_mib=200))
    assert ended == {"said": None, "loss": "oom"}


def test_a_fork_bomb_is_bounded(walls: str) -> None:
    needs_cgroup(walls)
    seen = inside(walls, FORKS, Limits(pids=40))["said"]
    assert seen is None or seen["refused"] > 0  # None: node itself could not make a thread


def test_without_cgroups_each_process_is_bounded_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "make", lambda memory_mib, pids: None)
    walls = backend("bubblewrap", Limits(memory_mib=400))
    assert "each process" in walls.describe()["limits"]
    link = walls.launch(["node", "-e", f"console.log(1); setTimeout(() => {{ {BOMB} }}, 500)"])
    started = time.monotonic()
    try:
        link.read(started + 20)
        with pytest.raises(EOFError):
            link.read(started + 20)
    finally:
        assert link.close() == "crash"
        walls.close()
    compiler = ReactCompiler("bubblewrap", limits=Limits(memory_mib=400))
    assert judge(compiler, "export default () => <p/>;").status == "ok"
    compiler.close()
