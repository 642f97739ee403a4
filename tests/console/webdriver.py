"""A browser that a test drives: W3C WebDriver, spoken to Debian's chromedriver with the standard library alone."""
import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
LIGHTHOUSE = "devtools://devtools/bundled/third_party/lighthouse/lighthouse-dt-bundle.js"
# For what the page does by itself, on a busy machine.
PATIENCE_SECONDS = 30


def find_browser():
    """The browser and its driver, or None where they are not installed."""
    browser = shutil.which("chromium")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class WebDriverError(Exception):
    """The driver's own words."""


class Element:
    def __init__(self, browser, handle):
        self.browser, self.handle = browser, handle

    def _call(self, method, what, body=None):
        return self.browser.call(method, "/element/%s/%s" % (self.handle, what), body)

    def click(self):
        self._call("POST", "click", {})

    def send_keys(self, text):
        self._call("POST", "value", {"text": text})

    def clear(self):
        self._call("POST", "clear", {})

    @property
    def text(self):
        return self._call("GET", "text")

    def attribute(self, name):
        return self._call("GET", "attribute/%s" % name)

    def is_displayed(self):
        return self._call("GET", "displayed")


class Browser:
    """One window without a screen. Use it in a `with`."""

    def __init__(self, width=1280, height=860):
        browser, driver = find_browser()
        self._home = tempfile.mkdtemp(prefix="console-browser-")
        self._port = free_port()
        environment = dict(os.environ, HOME=self._home, TMPDIR=self._home)
        self._driver = subprocess.Popen([driver, "--port=%d" % self._port, "--log-level=SEVERE"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        self._base = "http://127.0.0.1:%d" % self._port
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                     "--window-size=%d,%d" % (width, height), "--user-data-dir=" + self._home]
        self._wait_for_driver()
        made = self._request("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": browser, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self._session = "/session/" + made["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Exception):
            self._request("DELETE", self._session)
        self._driver.terminate()
        self._driver.wait(10)
        shutil.rmtree(self._home, ignore_errors=True)

    def _wait_for_driver(self):
        def is_ready():
            with contextlib.suppress(OSError):
                return self._request("GET", "/status")["ready"]
        wait_for(is_ready, "chromedriver to start")

    def _request(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise WebDriverError("%s: %s" % (value["error"], value["message"].split("\n")[0])) from None

    def call(self, method, path, body=None):
        return self._request(method, self._session + path, body)

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    @property
    def url(self):
        return self.call("GET", "/url")

    def all(self, selector):
        found = self.call("POST", "/elements", {"using": "css selector", "value": selector})
        return [Element(self, one[ELEMENT]) for one in found]

    def find(self, selector):
        """Waits for it."""
        wait_for(lambda: self.all(selector), "an element " + selector)
        return self.all(selector)[0]

    def click(self, selector):
        """Waits for it, also where the page draws it anew meanwhile."""
        def is_clicked():
            try:
                self.find(selector).click()
            except WebDriverError as error:
                if not str(error).startswith("stale element"):
                    raise
                return False
            return True
        wait_for(is_clicked, "a click on " + selector)

    def press(self, key):
        """A key, wherever the focus is."""
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": [
            {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})

    def _point(self, element, *steps):
        """Moves and presses of the pointer: a step is a place in the element, from its upper left corner on, or "Down" or "Up"."""
        box = self.run("const {width, height} = arguments[0].getBoundingClientRect(); return [width, height]", {ELEMENT: element.handle})
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [
            {"type": "pointer" + one, "button": 0} if isinstance(one, str) else
            {"type": "pointerMove", "duration": 0, "origin": {ELEMENT: element.handle},
             "x": round(one[0] - box[0] / 2), "y": round(one[1] - box[1] / 2)} for one in steps]}]})

    def hover(self, element, x, y):
        """Moves the pointer to a place in the element."""
        self._point(element, (x, y))

    def drag(self, element, begin, end):
        self._point(element, begin, "Down", end, "Up")

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, what):
        """Waits until the script returns something."""
        return wait_for(lambda: self.run(script), what)

    def command(self, name, **parameters):
        """A command of the browser's own protocol."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def show_as(self, width=1280, height=860, dark=False, scale=1):
        """As on a screen of that size, and of a reader who likes it dark; returns when the page has drawn that."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        # Without motion: a colour that changes slowly is neither the one nor the other for a while.
        self.command("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])
        self.run("await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def axe(self):
        """The source of axe-core, which the browser has for its developers' tools; None where it has not."""
        self.open(LIGHTHOUSE)
        return self.run(r"""
          const text = document.body.textContent;
          const begin = text.indexOf('`/*! axe v');
          if (begin < 0) return null;
          let end = begin + 1;
          while (end < text.length && text[end] !== '`') end += text[end] === '\\' ? 2 : 1;
          return text.slice(begin + 1, end).replace(/\\(\n|[`$\\])/g, (_, one) => one === '\n' ? '' : one);""")

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", "/screenshot")))

    def complaints(self):
        """What the page wrote to the browser's console as errors, refusals of its policy among them."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})
                if entry["level"] == "SEVERE"]


def wait_for(holds, what):
    limit = time.monotonic() + PATIENCE_SECONDS
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > limit:
            raise AssertionError("waited %d s for %s" % (PATIENCE_SECONDS, what))
        time.sleep(0.02)
