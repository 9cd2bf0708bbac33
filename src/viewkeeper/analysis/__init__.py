"""Facts about expressions. So far: which ranges a condition confines its columns to."""
