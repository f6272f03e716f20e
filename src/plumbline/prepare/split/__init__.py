"""Which buildings are learnt from and which are tested with."""
