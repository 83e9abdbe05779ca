"""Where runs take place: the seam to other hosts."""
