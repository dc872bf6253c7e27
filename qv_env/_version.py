"""The version of the package, alone so that builds read it without importing the rest."""

__version__ = "0.1.0"
