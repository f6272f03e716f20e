"""Look into files before a model does: what each is, how it is understood, and what is doubtful."""
