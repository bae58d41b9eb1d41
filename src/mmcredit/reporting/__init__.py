"""Pages that people read: credit maps, and comparisons of runs."""
