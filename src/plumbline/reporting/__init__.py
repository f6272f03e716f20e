"""What pages for people are drawn with: the skeleton, texts, figures, tables and charts."""
