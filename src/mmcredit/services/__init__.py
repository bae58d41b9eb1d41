"""What knows about claims and responses: routers that mark claims, judges that compare and score, the chat client
behind them, the embedded world's oracles."""
