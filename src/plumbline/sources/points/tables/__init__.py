"""Read tables of points whose layout a program or a service has published."""
