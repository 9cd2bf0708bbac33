"""The words of the algebra: types, schemas and signed bags of rows. Imports nothing of ours but errors."""
