"""Rule-based rewards: finding the final answer, comparing it with the gold answer, keeping to the format."""
