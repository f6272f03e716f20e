"""What a building does as a whole, and what moves within it when that is taken off."""
