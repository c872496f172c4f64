"""The skipping of tests is itself tested: a check that can only skip is no check."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = "pytester"


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A test suite with this conftest and one browser test, on a machine with an empty PATH."""
    monkeypatch.delenv("BOTGRPO_REQUIRE", raising=False)
    monkeypatch.setenv("PATH", str(pytester.path))
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
    result.stdout.fnmatch_lines(["SKIPPED*apt install chromium*"])


def test_what_is_there_runs(suite: pytest.Pytester) -> None:
    browser = suite.path / "chromium"
    browser.write_text("#!/bin/sh\n")
    browser.chmod(0o755)
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
    result.stderr.fnmatch_lines(["*unknown *dokcer*; allowed: docker, browser, small*"])
