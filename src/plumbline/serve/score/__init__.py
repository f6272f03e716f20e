"""Process deliveries of points: find new ones, judge them with the champion, and list the
changes."""
