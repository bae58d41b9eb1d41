"""The embedded world: rendered scenes with exact boxes, questions, a language prior, and an oracle of claims."""
