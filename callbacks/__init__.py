"""The credit-assignment methods: one file, one yaml in configs/callbacks, one card each."""
