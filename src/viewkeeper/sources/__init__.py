"""Data of others on its way in: files and directories as batches of rows, read on the driver with bounded memory."""
