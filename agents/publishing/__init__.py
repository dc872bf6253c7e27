"""The scoreboard: committed results and the tables made from them."""
