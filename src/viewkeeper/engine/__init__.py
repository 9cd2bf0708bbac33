"""PySpark: sessions on Apache Spark, Spark Connect and Sail, and frames in and out as Arrow.

Only this package imports pyspark. One code path serves all engines: the Spark Connect DataFrame API they share.
"""

from viewkeeper.engine.engine import Engine, Frame, open_engine
from viewkeeper.engine.settings import Limits, Settings

__all__ = ["Engine", "Frame", "Limits", "Settings", "open_engine"]
