"""A page in a real browser, for tests that drive one."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CHROMEDRIVER = shutil.which("chromedriver")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


class Browser:
    """A page in Chromium."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver = driver
        self.folder = folder

    def open(
        self,
        page: str,
        *,
        width: int = 1280,
        height: int = 1000,
        dark: bool = False,
        ready: str = "window.discoformer !== undefined",
    ) -> None:
        path = self.folder / "page.html"
        path.write_text(page, encoding="utf-8")
        self.window(width, height, dark)
        self.driver.get_log("browser")
        self.driver.get(path.as_uri())
        self.wait(ready)

    def window(self, width: int, height: int, dark: bool) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})

    def ask(self, script: str, *given: Any) -> Any:
        """What a function body in JavaScript returns."""
        return self.driver.execute_script(script, *given)

    def wait(self, condition: str) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 60, 0.05).until(lambda _: self.ask(f"return Boolean({condition})"))

    def settle(self) -> None:
        """Until what was changed is drawn."""
        self.ask(
            "window.settled = false; requestAnimationFrame(() => setTimeout(() => {settled = true}, 30))"
        )
        self.wait("settled")

    def drag(self) -> list[dict[str, Any]]:
        """Drag every slider over a fifth of its way, and give what each frame took, in milliseconds."""
        frames: list[dict[str, Any]] = self.driver.execute_async_script(
            "const done = arguments[0]; const next = () => new Promise(r => requestAnimationFrame(r));"
            "(async () => { for (const s of document.querySelectorAll('.slider input')) {"
            "for (let k = 0; k < 5; k++) { s.value = Number(s.min) + (s.max - s.min) * (0.4 + 0.05 * k);"
            "s.dispatchEvent(new Event('input'));"
            "await next(); await next(); } s.dispatchEvent(new Event('change')); }"
            "done(discoformer.corner.frames.filter(f => f.moving)); })()"
        )
        return frames

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def picture(self) -> str:
        """All canvases of the corner, as text."""
        joined = "[...document.querySelectorAll('.corner canvas')].map(c => c.toDataURL()).join()"
        return str(self.ask(f"return {joined}"))


@contextmanager
def start_browser(folder: Path) -> Iterator[Browser]:
    """Chromium without a window, or a skipped test where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium: the page is not tested")
    if CHROMIUM is None or CHROMEDRIVER is None:
        pytest.skip("no chromium and chromedriver on this machine: the page is not tested")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(CHROMEDRIVER))
    try:
        yield Browser(driver, folder)
    finally:
        driver.quit()
