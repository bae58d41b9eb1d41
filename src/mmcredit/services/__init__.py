"""What knows about claims: routers that mark them in a response, the chat client behind them, the embedded world's
oracle."""
