"""The skipping of tests is itself tested: a check that can only skip is no check."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = "pytester"


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A test suite with this conftest and one browser test, on a machine without a browser."""
    monkeypatch.delenv("BOTGRPO_REQUIRE", raising=False)
    monkeypatch.setenv("BOTGRPO_CHROMIUM", str(pytester.path / "chromium"))
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text("utf-8"))
    pytester.makeini("[pytest]\nmarkers =\n    browser\n    docker\n    small\n")
    pytester.makepyfile(
        """
        import pytest

        def test_plain():
            pass

        @pytest.mark.browser
        def test_of_a_page():
            raise AssertionError("ran without a browser")
        """
    )
    return pytester


def test_what_is_not_there_is_skipped_with_the_next_step(suite: pytest.Pytester) -> None:
    result = suite.runpytest("-ra")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*no Chromium at*BOTGRPO_CHROMIUM*"])


def test_what_is_there_runs(suite: pytest.Pytester) -> None:
    (suite.path / "chromium").write_bytes(b"\x7fELF")
    suite.runpytest().assert_outcomes(passed=1, failed=1)


def test_what_is_required_and_not_there_fails_the_run(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOTGRPO_REQUIRE", "docker browser")
    result = suite.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*names 'browser', but browser: no Chromium*"])


def test_what_is_required_but_deselected_fails_nothing(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOTGRPO_REQUIRE", "browser")
    suite.runpytest("-m", "not browser").assert_outcomes(passed=1, deselected=1)


def test_an_unknown_requirement_is_refused(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOTGRPO_REQUIRE", "dokcer")
    result = suite.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unknown *dokcer*; allowed: docker, browser, small, sandbox*"])


@pytest.mark.parametrize(("required", "outcome"), [("", "skipped"), ("sandbox", "failed")])
def test_skipping_for_want_of_a_sandbox_fails_where_one_is_required(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, required: str, outcome: str
) -> None:
    monkeypatch.setenv("BOTGRPO_REQUIRE", required)
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text("utf-8"))
    pytester.makepyfile(
        """
        import pytest
        from botgrpo.sandbox.errors import SandboxUnavailable

        def test_a_verdict():
            try:
                raise SandboxUnavailable("no user namespaces")
            except SandboxUnavailable as error:
                pytest.skip(f"no sandbox: {error}")
        """
    )
    pytester.runpytest().assert_outcomes(**{outcome: 1})


def test_any_other_skip_stays_one(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOTGRPO_REQUIRE", "sandbox")
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text("utf-8"))
    pytester.makepyfile("import pytest\n\ndef test_x():\n    pytest.skip('not today')\n")
    pytester.runpytest().assert_outcomes(skipped=1)
