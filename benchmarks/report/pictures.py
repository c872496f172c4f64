"""Every figure of a page as PNG, for papers: photographed in Chromium, in light colours.

The page is our own and its text escaped; it is opened offline, with scripts off.
"""

from __future__ import annotations

from pathlib import Path

from botgrpo.sandbox.chromium import find_chromium

SCALE = 2  # device pixels a CSS pixel: about 200 dots an inch at the width of a page
WINDOW = {"width": 1240, "height": 900}


def write_pictures(page: Path, folder: Path) -> list[Path]:
    """FOLDER/NAME.png of each figure, NAME as in the page's ids; returns the paths.

    Raises SandboxUnavailable, with the next step, where there is no Chromium.
    """
    from playwright.sync_api import sync_playwright

    chromium = find_chromium()
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        context = browser.new_context(
            offline=True,
            java_script_enabled=False,
            color_scheme="light",
            device_scale_factor=SCALE,
            viewport=WINDOW,  # type: ignore[arg-type]
        )
        shown = context.new_page()
        shown.goto(page.resolve().as_uri())
        for chart in shown.locator("figure svg").all():
            if not chart.is_visible():  # the narrow twin of a wide one
                continue
            name = str(chart.get_attribute("aria-labelledby")).split("-t ")[0]
            path = folder / f"{name}.png"
            chart.screenshot(path=path, animations="disabled")
            written.append(path)
        browser.close()
    return written
