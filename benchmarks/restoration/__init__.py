"""Judge restored fields: on held-out scenes beside a Gaussian process, and on left-out points of real products."""
