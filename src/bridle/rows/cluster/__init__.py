"""Rows on many machines: each part stays where it is, with its dual variables."""
