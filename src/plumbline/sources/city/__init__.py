"""Find the files of a city folder, and write its footprints and labels by tile."""
