"""Judges of claims: the oracle of the embedded world."""
