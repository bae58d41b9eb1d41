"""mmcredit: which tokens of a sampled response earned the reward?"""

__version__ = "0.1.0"
