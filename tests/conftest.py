"""Settings that all tests share."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

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
