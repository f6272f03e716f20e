"""Read points: a product of any known format becomes a track."""
