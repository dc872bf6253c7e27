"""The play page: its server (``server``) and, in ``static``, what the browser gets."""
