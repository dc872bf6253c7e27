"""Searches: within a stage, through a known game, over sampled stocks; the solver."""
