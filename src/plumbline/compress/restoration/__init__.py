"""Find how few steps restore a field as well as many do."""
