"""A maker of held-out scenes: a dense field of ground movement, and what two radar tracks see of it.

Written from the design and the literature alone. Its code shares nothing with the simulator of the training.
"""
