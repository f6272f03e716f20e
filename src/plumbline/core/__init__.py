"""Provide what every stage uses: errors, files, jobs, the console, the building compass and
strain."""
