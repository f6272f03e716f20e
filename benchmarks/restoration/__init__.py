"""Judge restored fields on held-out scenes by separate code."""
