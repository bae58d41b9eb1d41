"""Data made ready for training."""
