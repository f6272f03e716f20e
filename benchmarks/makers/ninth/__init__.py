"""The ninth maker of held-out cities, in which anything may fail: corners, ends, joints, bowls, bending, two at once.

Written from the design alone. Its code shares nothing with the simulator of the training or with another maker.
"""
