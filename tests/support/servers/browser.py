"""A real browser without a window, and what it asked and complained of."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options as ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.support.waiting import wait_until

SHOTS = Path(__file__).parents[3] / ".artefacts" / "page"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    def __init__(self, driver: Chrome) -> None:
        self.driver = driver
        self._asked: list[str] = []

    def open(self, address: str) -> None:
        self.driver.get("about:blank")  # the page before asks no more for who is gone
        self.complaints()
        self.driver.get(address)
        wait_until(lambda: self.driver.execute_script("return document.body.dataset.shown"), what="the page")

    def text(self, selector: str) -> str:
        return self.driver.find_element(By.CSS_SELECTOR, selector).text

    def until(self, selector: str, is_as_wanted: Callable[[str], bool]) -> str:
        wait_until(lambda: is_as_wanted(self.text(selector)), what=f"{selector}: {self.text(selector)}")
        return self.text(selector)

    def size(self, width: int, height: int) -> None:
        """Of the page, without the window's frame."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefers(self, scheme: str) -> None:
        features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)

    def is_too_wide(self) -> bool:
        """Whether people have to move the whole page sideways."""
        return bool(self.driver.execute_script("return document.documentElement.scrollWidth > innerWidth"))

    def keep(self, name: str) -> None:
        """A picture of it, for people."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(SHOTS / f"{name}.png"))

    def hosts(self) -> set[str]:
        """Whom the page has asked since the browser started."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self._asked.append(message["params"]["request"]["url"])
        return {urlsplit(url).netloc for url in self._asked if not url.startswith(("data:", "chrome:", "about:"))}

    def complaints(self) -> list[str]:
        """Errors of scripts, and of what could not be loaded."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


@contextmanager
def browser() -> Iterator[Browser]:
    """Skips the test where there is none, but in CI."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs chromium and chromedriver: see .ci/run")
        pytest.skip("needs chromium and chromedriver (Debian: chromium chromium-driver)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = ChromeOptions()
        options.binary_location = chromium
        for flag in (*_FLAGS, f"--user-data-dir={folder}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        chrome = Chrome(options=options, service=Service(driver))
        try:
            yield Browser(chrome)
        finally:
            chrome.quit()
