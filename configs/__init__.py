"""The Hydra tree."""
