"""The tests of Quarante Voleurs; a package, so that they share the slow reference game."""
