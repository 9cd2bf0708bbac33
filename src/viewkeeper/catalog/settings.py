"""Settings under which every query of a database runs (pinned in the ledger), and limits of an open database."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True)
class Limits:
    """Limits of time for a statement, and of rounds and rows for a recursion; settings of an open database."""

    statement_timeout: float | None = None
    max_rounds: int = 10_000
    max_rows: int = 100_000_000

    def with_value(self, name: str, value: float | int | None) -> Limits:
        """The limits with one value changed; None restores its default, and a timeout of 0 means no limit."""
        if value is None or (name == "statement_timeout" and value == 0):
            value = getattr(Limits(), name)
        return replace(self, **{name: value})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Settings:
    """Engine settings that affect the meaning of a query; fixed when the database is created."""

    engine: str = "spark"
    ansi: bool = True
    time_zone: str = "UTC"
    case_sensitive: bool = False
    map_key_dedup: str = "EXCEPTION"

    def to_json(self) -> dict[str, object]:
        """For the ledger."""
        return asdict(self)

    @staticmethod
    def from_json(body: dict[str, object]) -> Settings:
        """The inverse of to_json."""
        return Settings(**body)  # type: ignore[arg-type]

    def spark_conf(self) -> dict[str, str]:
        """The settings as Spark configuration."""
        return {
            "spark.sql.ansi.enabled": str(self.ansi).lower(),
            "spark.sql.session.timeZone": self.time_zone,
            "spark.sql.caseSensitive": str(self.case_sensitive).lower(),
            "spark.sql.mapKeyDedupPolicy": self.map_key_dedup,
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
            "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
            "spark.sql.timestampType": "TIMESTAMP_LTZ",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
        }
