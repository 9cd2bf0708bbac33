"""Metrics of a server, under Prometheus' names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from viewkeeper.transaction.change import Commit

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class ServerMetrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self.epoch = Gauge("viewkeeper_epoch", "The newest epoch.", registry=registry)
        self.commits = Histogram(
            "viewkeeper_commit_seconds",
            "Time of a statement that committed, from its begin to its ledger entry.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.propagation = Histogram(
            "viewkeeper_propagation_seconds",
            "Time that a commit spent on maintaining views.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.subscriptions = Gauge("viewkeeper_subscriptions", "Open subscriptions.", ["transport"], registry=registry)
        self.lag = Gauge(
            "viewkeeper_subscription_lag_epochs",
            "Epochs that a subscription has not been given yet; of each view, its slowest ones.",
            ["view", "transport", "subscription"],
            registry=registry,
        )
        self.requests = Counter(
            "viewkeeper_http_requests_total", "Requests.", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "viewkeeper_http_request_seconds",
            "Time until the answer of a request was sent.",
            ["route"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.connections = Gauge("viewkeeper_http_connections", "Requests and streams under way.", registry=registry)

    def committed(self, commit: Commit, seconds: float) -> None:
        """Notes a commit."""
        self.commits.observe(seconds)
        views = [report.seconds for report in commit.report.values() if report.strategy != "change"]
        self.propagation.observe(sum(views))
        self.epoch.set(commit.epoch)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Notes a request."""
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' text form."""
        return bytes(generate_latest(self._registry))
