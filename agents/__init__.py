"""Programs that train, evaluate and show agents; they run from a checkout."""
