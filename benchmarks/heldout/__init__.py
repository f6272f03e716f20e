"""A held-out city: a second implementation of sections 3 and 4 of the design, sharing no code with the simulator.

What a model is judged on should not come from the code that made its training data. So shapes of footprints, of
damage and of noise differ from those of `plumbline.simulate`; only the definitions (compass, label, line of sight) are
the same.
"""
