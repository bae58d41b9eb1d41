"""Scoring a rollout again under other images, prompts or weights."""
