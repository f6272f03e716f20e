"""Draw pages for people: the skeleton, texts, figures, tables and charts."""
