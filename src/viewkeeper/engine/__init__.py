"""PySpark: sessions on Apache Spark, Spark Connect and Sail, and frames in and out as Arrow.

Only this package imports pyspark. One code path serves all engines: the Spark Connect DataFrame API they share.
"""
