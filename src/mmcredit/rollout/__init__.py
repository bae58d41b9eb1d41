"""Engines that sample responses from the policy."""
