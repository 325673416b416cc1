"""What the project's own tools cost, as ratios to something that everybody has: `make bench`."""
