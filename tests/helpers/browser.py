"""Chromium without a window, for tests of pages. Debian: `apt-get install chromium chromium-driver`."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

WAIT = 60


class Browser:
    """A window of Chromium that shows one page after another; without network, and with time for a busy machine."""

    def __init__(self, *, width: int = 1100, height: int = 900, dark: bool = False) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        for each in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
            options.add_argument(each)
        options.add_argument(f"--window-size={width},{height}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.binary_location = _program("chromium")
        self.driver = webdriver.Chrome(options=options, service=Service(_program("chromedriver")))
        self.driver.set_script_timeout(WAIT)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        if width < 500:  # no window is narrower
            size = {"width": width, "height": height, "deviceScaleFactor": 2, "mobile": True}
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def open(self, path: pathlib.Path) -> None:
        self.complaints()
        self.driver.get(path.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        """The first element, or a failure."""
        from selenium.webdriver.common.by import By

        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def wait_for(self, condition: str) -> None:
        """Wait until an expression holds."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, WAIT).until(lambda _: self.run(f"return Boolean({condition})"))

    def complaints(self) -> list[str]:
        """What the console has said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def picture(self, path: pathlib.Path) -> None:
        """Save all of the page as PNG."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        self.driver.set_window_size(size["width"], size["height"] + 200)
        self.driver.save_screenshot(str(path))

    def close(self) -> None:
        self.driver.quit()


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is not there: apt-get install chromium chromium-driver"
    return found
