"""Watch a run and record it: alarms, curves, memory, hardware."""
