"""Sources of samples, encoding, and the DataModule."""
