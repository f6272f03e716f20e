"""What every step stands on: errors, files, jobs, the console, the building compass and strain."""
