"""Parent optimizers: how rewards become advantages, and advantages a loss."""
