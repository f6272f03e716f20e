"""Hold the scale against buildings whose levels and damage are published."""
