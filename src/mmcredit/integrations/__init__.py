"""Doors to other evaluation kits."""
