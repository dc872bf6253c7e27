"""Settings that all tests share."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.browser import chromium, open_page

__all__ = ["chromium", "open_page"]  # fixtures, here so that a process starts one browser only

# Windows open where nobody sees them.
os.environ["SDL_VIDEODRIVER"] = "dummy"

# The same examples in every run and on every machine, and no clock in any of them.
settings.register_profile(
    "house",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("house")
