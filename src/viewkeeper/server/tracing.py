"""OpenTelemetry spans of requests, if it is installed and configured; nothing otherwise."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import Any

_ASKED = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


class Tracing:
    """Spans by the tracer that the process has configured, or that the environment asks for.

    `missing` says what has to be installed for what the environment asks for.
    """

    def __init__(self) -> None:
        self.missing: str | None = None
        self._tracer: Any = None
        asked = next((name for name in _ASKED if os.environ.get(name)), None)
        if asked is not None:
            if _is_installed(_EXPORTER):
                _configure()
            else:
                self.missing = f"{asked} is set, but nothing can export spans: pip install 'viewkeeper[telemetry]'"
        if _is_installed("opentelemetry.trace"):
            from opentelemetry import trace

            self._tracer = trace.get_tracer("viewkeeper.server")

    @contextlib.contextmanager
    def span(self, name: str, attributes: Mapping[str, Any]) -> Iterator[Any]:
        """A span around what happens inside; None if there is no OpenTelemetry."""
        if self._tracer is None:
            yield None
            return
        with self._tracer.start_as_current_span(name, attributes=dict(attributes)) as span:
            yield span


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # nor is a package around it
        return False


def _configure() -> None:
    """Exports spans as the environment says, unless the process has a provider of its own."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return
    provider = TracerProvider(resource=Resource.create({"service.name": "viewkeeper"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
