"""The eighth maker of held-out cities, written from the design alone.

Its code shares nothing with the simulator of the training or with any other maker, and should stay so: that what it
says of a model is worth something rests on it.
"""
