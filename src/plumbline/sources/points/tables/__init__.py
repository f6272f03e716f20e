"""Read tables of points in layouts that programs or services have published."""
