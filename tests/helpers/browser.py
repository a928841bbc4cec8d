"""A headless Chromium that remembers what its pages asked for and what went wrong in them."""

import contextlib
import json
import os
import shutil
import time

WAIT = 60  # seconds; nothing takes that long unless it hangs


class NoBrowserError(RuntimeError):
    """Chromium, its driver or selenium is absent; the message says which."""


def start_browser():
    """A `Browser`.

    Raises:
        NoBrowserError: something is not installed.
    """
    try:
        from selenium import webdriver
    except ImportError:
        raise NoBrowserError("needs selenium (the extra browser)") from None
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        raise NoBrowserError("needs Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("headless=new", "disable-gpu", "disable-dev-shm-usage", "no-first-run", "hide-scrollbars"):
        options.add_argument(f"--{argument}")
    options.add_argument("--disable-background-networking")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium's own sandbox refuses root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return Browser(webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)))


class Browser:
    """What the tests do with a page.

    Args:
        driver: selenium's.
    """

    def __init__(self, driver):
        self.driver = driver
        self.hosts = set()  # that pages have asked anything of
        driver.set_window_size(1280, 900)

    def wait(self, condition):
        """What the condition returns once that is true; AssertionError if it takes too long."""
        end = time.monotonic() + WAIT
        while not (found := condition()):
            assert time.monotonic() < end, f"nothing came within {WAIT} seconds"
            time.sleep(0.03)
        return found

    def rest(self):
        """Waits until the page has been the same for a second."""
        seen, since = None, time.monotonic()
        while time.monotonic() < since + 1:
            now = self.js("return document.body.innerHTML")
            if now != seen:
                seen, since = now, time.monotonic()
            time.sleep(0.1)

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def all(self, css):
        return self.driver.find_elements("css selector", css)

    def one(self, css):
        return self.driver.find_element("css selector", css)

    def texts(self, css):
        """What the elements say, hidden or not, as it was put into them."""
        return self.js("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", css)

    def value(self, css):
        """What a box holds; nothing if there is none."""
        return self.js("return document.querySelector(arguments[0])?.value ?? ''", css)

    def press(self, *keys):
        """Keys, sent to what has the focus; names as those of selenium's Keys."""
        from selenium.webdriver.common.keys import Keys

        self.driver.switch_to.active_element.send_keys(*(getattr(Keys, key, key) for key in keys))

    def put(self, box, text):
        """Replaces what a box, or the one with this selector, holds, in one go as the clipboard does."""
        self.js("arguments[0].focus(); arguments[0].select()", self.one(box) if isinstance(box, str) else box)
        self.driver.execute_cdp_cmd("Input.insertText", {"text": text})

    @contextlib.contextmanager
    def emulating(self, scheme="light", width=None):
        """The system's colours, and a narrow window as a telephone has it."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        if width:
            metrics = {"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": False}
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def console(self, *levels):
        """The messages since the last call, of these levels; errors and warnings unless said otherwise."""
        levels = levels or ("SEVERE", "WARNING")
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in levels]

    def requests(self):
        """The requests since the last call: (method, URL, body or None)."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                request = message["params"]["request"]
                found.append((request["method"], request["url"], request.get("postData")))
            elif message["method"] == "Network.webSocketCreated":
                found.append(("WEBSOCKET", message["params"]["url"], None))
        self.hosts |= {url.split("/")[2] for _, url, _ in found if url.startswith(("http", "ws"))}
        return found
