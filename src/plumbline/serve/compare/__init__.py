"""Compare what the radar says of buildings with what levelling says of them."""
