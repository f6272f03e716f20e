"""Compare the movements of buildings by radar with those by levelling."""
