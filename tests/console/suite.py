"""Tests in a browser, one after the other, and what every page of the console must hold."""
import os
import time

# How pages are looked at: as wide as a telephone, half a screen and a screen, light and dark.
LOOKS = {"%d %s" % (width, name): {"width": width, "height": 860, "dark": name == "dark"}
         for width in (400, 900, 1600) for name in ("light", "dark")}
# Which rules of axe are asked then: all of them once, and of the same elements in other colours those of colours. It takes
# half a second for a page, so that scripts/nightly alone asks all of every look (MUSTER_LONG_TESTS=1).
RULES = {"900 light": "{}", "900 dark": "{runOnly: ['color-contrast']}"}
if os.environ.get("MUSTER_LONG_TESTS") == "1":
    RULES = dict.fromkeys(LOOKS, "{}")


def run_tests(tests, names, browser, console, work):
    """Runs those that are named, or all; the number that failed. A complaint of the browser is a failure."""
    failures = 0
    for name, test in tests.items():
        if names and name not in names:
            continue
        begin = time.monotonic()
        try:
            test(browser, console, work)
            complaints = [text for text in browser.complaints() if "favicon" not in text]
            assert not complaints, complaints
            print("ok     %-50s %.1f s" % (name, time.monotonic() - begin), flush=True)
        except Exception as error:  # Of the driver, too: the others are still run.
            failures += 1
            print("FAILED %-50s %s: %s" % (name, type(error).__name__, error), flush=True)
    return failures


def check_pages(browser, console, pages):
    """What is wrong for readers with weak eyes, a keyboard or a screen reader, of pages: (address, selector) each."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "accessibility.js")) as file:
        check = file.read()
    axe = browser.axe()
    if not axe:
        print("       this browser has no axe-core: our own checks alone are made")
    wrong = []
    for address, ready in pages:
        browser.open(console.url + address)
        browser.find(ready)
        if axe:
            browser.run(axe)
        for look, screen in LOOKS.items():
            browser.show_as(**screen)
            found = browser.run(check)
            if axe and RULES.get(look):
                found += browser.run("return axe.run(" + RULES[look] + ").then((r) => r.violations.map((v) => 'axe: ' + v.id + ': ' + v.nodes[0].html))")
            wrong += ["%s %s: %s" % (address, look, text) for text in found]
        browser.show_as()
    assert not wrong, "\n" + "\n".join(wrong)
