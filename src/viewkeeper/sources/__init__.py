"""External data to load: files and directories as batches of rows, read on the driver with bounded memory."""
