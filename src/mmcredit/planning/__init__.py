"""What a run needs before it starts: parameters, memory and tokens, from the configuration alone."""
