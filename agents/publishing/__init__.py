"""The scoreboard: committed results and the tables that are made of them."""
