"""Train the networks."""
