"""The service, asked as its users ask it."""
