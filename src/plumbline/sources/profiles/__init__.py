"""Read profile rows, the files of the first generation."""
