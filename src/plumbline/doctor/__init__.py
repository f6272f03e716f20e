"""What an installation needs, asked of this one: each check says what it found and how to mend it."""
