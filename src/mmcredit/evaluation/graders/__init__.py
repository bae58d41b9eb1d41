"""From a response to a grade, rightly; the rules of the official kits are in ``evaluation.kits``."""
