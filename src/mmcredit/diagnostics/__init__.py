"""What training did to the claims of a policy: measurements on a frozen reference bank, and of a run."""
