"""Tests of the programs and players in agents/."""
