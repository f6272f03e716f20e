"""Work with DVC and git: stages, caches, the remote and clones."""
