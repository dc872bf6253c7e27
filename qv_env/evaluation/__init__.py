"""Comparing players: the protocol, the loop that plays deals, rows, statistics, reports."""
