"""Marks that several test files share."""

from __future__ import annotations

import os

import pytest

holds_folders = pytest.mark.skipif(
    os.name != "posix", reason="folders are held on POSIX systems only"
)
