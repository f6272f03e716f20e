"""Load, check, batch and augment the prepared buildings."""
