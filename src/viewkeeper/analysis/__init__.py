"""Facts about expressions: which ranges a condition confines its columns to, and whether it can raise."""
