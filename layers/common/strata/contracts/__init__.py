"""Shapes on the wire, from and to the model."""
