"""The table for people: the game with undo, the terminal, the server and its page."""
