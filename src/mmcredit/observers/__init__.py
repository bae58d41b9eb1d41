"""Lightning callbacks that only watch."""
