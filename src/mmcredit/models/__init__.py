"""The policy and its kin: one wrapper, families of models, token rows, the tiny model."""
