"""A real browser for tests: the machine's chromium, driven by Playwright.

``conftest.py`` gives all tests the fixtures: ``chromium`` (one browser a process) and
``open_page``. Where there is no chromium its tests are skipped, saying so; with ``CI=true`` that
is an error.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
GUARD = 60_000  # milliseconds: only what is broken ever waits as long


def executable() -> str | None:
    """Where chromium is, or None."""
    default = "/usr/bin/chromium"
    return default if os.access(default, os.X_OK) else shutil.which("chromium")


@pytest.fixture(scope="session")
def chromium() -> Iterator:
    """A running browser."""
    path = executable()
    if path is None:
        reason = "no chromium is found: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium) -> Iterator[Callable]:
    """Open a page: ``open_page(address, size="desktop", scheme="light", allowed=(), **context)``.

    What the page writes to the console as an error or a warning, what it throws, and every request
    that starts with none of ``allowed`` (by default files and data) fails the test at its end;
    such requests do not get through, either. Console messages that contain the text ``expected``
    (the browser reports every answer above 399) are let pass.
    """
    contexts, faults = [], []

    def call(
        address: str | Path,
        size: str = "desktop",
        scheme: str = "light",
        allowed: tuple[str, ...] = ("file:", "data:"),
        expected: str | None = None,
        **context_options,
    ):
        width, height = SIZES[size]
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            has_touch=size == "phone",
            **context_options,
        )
        contexts.append(context)
        context.set_default_timeout(GUARD)

        def on_request(route) -> None:
            if route.request.url.startswith(allowed):
                route.continue_()
            else:
                faults.append(f"request for {route.request.url}")
                route.abort()

        context.route("**/*", on_request)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"page error: {error}"))
        page.on(
            "console",
            lambda message: (
                faults.append(f"console {message.type}: {message.text}")
                if message.type in ("error", "warning")
                and (expected is None or expected not in message.text)
                else None
            ),
        )
        page.on("dialog", lambda dialog: (faults.append("a dialog"), dialog.dismiss()))
        page.goto(address.as_uri() if isinstance(address, Path) else address)
        return page

    yield call
    for context in contexts:
        context.close()
    assert faults == []


def wait_until(page, expression: str) -> None:
    """Wait until a JavaScript expression is true.

    Unlike Playwright's ``wait_for_function``, it needs no ``unsafe-eval`` in the page's policy.
    """
    deadline = time.monotonic() + GUARD / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"never came true: {expression}"
        page.wait_for_timeout(20)
