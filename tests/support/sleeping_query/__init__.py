"""How the generator of this folder's function speaks."""

DELTAS = 10
PAUSE_S = 0.15
