"""Players that need nothing but the environment."""
