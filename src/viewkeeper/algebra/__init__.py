"""The relational algebra: nodes, expressions, types, schemas and signed bags of rows. Imports only our errors."""
