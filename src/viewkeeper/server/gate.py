"""The gate: what every request passes before and after a call.

In this order: the host and origin it comes from, the token, the rate and the number of connections, the body; then the
call; then the metrics, the span and the line in the log.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from viewkeeper.errors import ViewkeeperError
from viewkeeper.server.access_tokens import Access
from viewkeeper.server.http_problems import MEDIA_TYPE, Problem, problem_of
from viewkeeper.server.server_settings import is_loopback
from viewkeeper.server.service import Service

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/healthz", "/readyz", "/docs", "/openapi.json", "/")
"""Calls without a token, and the page with its assets: none of them tells anything of the database."""

_SAFE = ("GET", "HEAD", "OPTIONS")
_ALLOWED_HEADERS = "authorization, content-type, accept, last-event-id, if-none-match"
_EXPOSED_HEADERS = "etag, x-request-id, x-viewkeeper-epoch, x-viewkeeper-more, retry-after"
_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)


def is_open(path: str) -> bool:
    """Whether a path is reached without a token."""
    return path in OPEN_PATHS or path.startswith("/assets/")


class Request:
    """A request on its way through the gate."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.id = uuid.uuid4().hex[:16]
        self.began = time.perf_counter()
        self.headers: dict[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        self.method = str(scope.get("method", "WEBSOCKET"))
        self.path = str(scope["path"])
        self.access: Access | None = None
        self.status = 0
        self.sent = 0

    @property
    def address(self) -> str:
        """The address of the client."""
        client = self.scope.get("client")
        return str(client[0]) if client else "local"

    @property
    def client(self) -> str:
        """Whose limits count: the token's, or the address's without one."""
        known = self.access is not None and self.access.name != "nobody"
        return f"token {self.access.name}" if known and self.access else f"address {self.address}"

    @property
    def token(self) -> str | None:
        """The token in its header, or in the subprotocols of a WebSocket, where browsers can put one."""
        kind, _, value = self.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and value.strip():
            return value.strip()
        for protocol in self.scope.get("subprotocols", ()):
            if protocol.startswith("bearer."):
                return str(protocol.removeprefix("bearer."))
        return None

    @property
    def route(self) -> str:
        """The path of the call with its parameters' names, for metrics."""
        found = self.scope.get("route")
        return str(getattr(found, "path", "other"))


class Gate:
    """An ASGI application around another."""

    def __init__(self, app: App, service: Service) -> None:
        self._app = app
        self._service = service
        self._allowed = {origin.rstrip("/").lower() for origin in service.settings.allow_origin}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request or a WebSocket."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        name = f"{request.method} {request.path}" if is_open(request.path) else request.method
        with self._service.tracing.span(name, {"http.request.method": request.method}) as span:
            await self._serve(request, receive, self._sending(request, send))
            if span is not None:
                span.update_name(f"{request.method} {request.route}")
                span.set_attribute("http.route", request.route)
                span.set_attribute("http.response.status_code", request.status)

    async def _serve(self, request: Request, receive: Receive, send: Send) -> None:
        service = self._service
        entered = ""
        problem: BaseException | None = None
        try:
            origin = self._origin(request)
            if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
                await _answer(send, 204, b"", _preflight(origin))
                return
            if not is_open(request.path):
                request.access = await self._access(request)
                request.scope.setdefault("state", {})["access"] = request.access
            service.clients.spend(request.client)
            service.clients.enter(request.client)
            entered = request.client
            service.metrics.connections.inc()
            if request.scope["type"] == "http":
                receive = await self._with_body(request, receive)
            await self._app(request.scope, receive, send)
        except (Problem, ViewkeeperError) as found:
            await self._refuse(request, found, send)
        except asyncio.CancelledError as found:
            problem = found
            raise
        except Exception as found:
            problem = found
            service.log.failure("failure", found, request=request.id, path=request.path)
            await self._refuse(request, Problem("internal", "the server failed; its log says more"), send)
        finally:
            if entered:
                service.clients.leave(entered)
                service.metrics.connections.dec()
            self._note(request, problem)

    async def _access(self, request: Request) -> Access:
        """What the caller may do; wrong tokens count for the rate of their address."""
        try:
            return await self._service.access(request.token)
        except Problem:
            self._service.clients.spend(request.client)
            raise

    def _note(self, request: Request, problem: BaseException | None) -> None:
        """One line in the log, and the metrics."""
        seconds = time.perf_counter() - request.began
        status = request.status or (101 if request.scope["type"] == "websocket" else 499)
        self._service.metrics.answered(request.method, request.route, status, seconds)
        query = request.scope.get("query_string", b"").decode("latin-1")
        self._service.log.write(
            "error" if status >= 500 else "info",
            "request",
            request=request.id,
            method=request.method,
            path=request.path,
            query=self._service.log.query(query) if query else None,
            route=request.route,
            status=status,
            milliseconds=round(seconds * 1000, 3),
            bytes=request.sent,
            client=request.address,
            token=None if request.access is None else request.access.name,
            problem=type(problem).__name__ if problem is not None else None,
        )

    # where it comes from ---------------------------------------------------------------------------

    def _origin(self, request: Request) -> str | None:
        """The allowed origin of a request, if it has one; raises for a request that another site sends."""
        host = request.headers.get("host", "")
        if not self._service.needs_token:
            name = (urlsplit(f"//{host}").hostname if _is_host(host) else None) or ""
            if not is_loopback(name) and name != self._service.settings.host.lower():
                raise Problem("wrong-host", "without a token, this server is reached as localhost only")
        origin = request.headers.get("origin")
        if origin is None:
            return None
        if origin.lower() in self._allowed or "*" in self._allowed:
            return origin
        own = origin.partition("://")[2].lower() == host.lower()
        asks = request.method == "OPTIONS" and "access-control-request-method" in request.headers
        if not own and (request.method not in _SAFE or asks):
            raise Problem(
                "cross-origin",
                "pages of other sites may not call this server",
                hint="start it with --allow-origin and the address of the page",
            )
        return None

    # the body --------------------------------------------------------------------------------------

    async def _with_body(self, request: Request, receive: Receive) -> Receive:
        """A receive that gives the whole body at once; raises if it is too large or comes too slowly."""
        limits = self._service.limits
        announced = request.headers.get("content-length", "0")
        if announced.isdigit() and int(announced) > limits.body_bytes:
            raise _too_large(limits.body_bytes)
        parts: list[bytes] = []
        size = 0
        more = True
        try:
            async with asyncio.timeout(limits.body_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    more = message.get("more_body", False)
                    if size > limits.body_bytes:
                        raise _too_large(limits.body_bytes)
        except TimeoutError:
            headers = {"Connection": "close"}
            raise Problem("body-too-slow", "the body came too slowly", headers=headers) from None
        body: bytes | None = b"".join(parts)

        async def whole() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            found, body = body, None
            return {"type": "http.request", "body": found, "more_body": False}

        return whole

    # answers ---------------------------------------------------------------------------------------

    def _sending(self, request: Request, send: Send) -> Send:
        """A send that adds headers, and notes what is sent."""

        async def sending(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                request.status = message["status"]
                message["headers"] = [*message.get("headers", ()), *self._headers(request)]
            elif message["type"] == "websocket.accept":
                request.status = 101
            elif message["type"] == "http.response.body":
                request.sent += len(message.get("body", b""))
            elif message["type"] == "websocket.send":
                request.sent += len(message.get("text") or message.get("bytes") or b"")
            await send(message)

        return sending

    def _headers(self, request: Request) -> list[tuple[bytes, bytes]]:
        headers = [*_SECURITY, (b"x-request-id", request.id.encode())]
        origin = request.headers.get("origin", "")
        if origin and (origin.lower() in self._allowed or "*" in self._allowed):
            headers.append((b"access-control-allow-origin", origin.encode("latin-1")))
            headers.append((b"access-control-expose-headers", _EXPOSED_HEADERS.encode()))
        return headers

    async def _refuse(self, request: Request, found: Problem | ViewkeeperError, send: Send) -> None:
        if request.status:
            return  # the answer has begun: it just ends
        problem = found if isinstance(found, Problem) else problem_of(found)
        headers = {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store", **problem.headers}
        websocket = request.scope["type"] == "websocket"
        await _answer(send, problem.status, problem.body(), headers, websocket=websocket)


def _is_host(text: str) -> bool:
    try:
        return urlsplit(f"//{text}").port is not None or True
    except ValueError:
        return False


def _too_large(limit: int) -> Problem:
    return Problem(
        "body-too-large",
        f"the body has more than {limit:,} bytes",
        hint="send less at once, or load a file with `viewkeeper load`",
        headers={"Connection": "close"},
        limit=limit,
    )


def _preflight(origin: str | None) -> dict[str, str]:
    """The headers that tell a browser what a page of an allowed origin may send."""
    if origin is None:
        return {}
    return {
        "Access-Control-Allow-Methods": "GET, POST",
        "Access-Control-Allow-Headers": _ALLOWED_HEADERS,
        "Access-Control-Max-Age": "600",
        "Vary": "Origin",
    }


async def _answer(send: Send, status: int, body: bytes, headers: dict[str, str], *, websocket: bool = False) -> None:
    kind = "websocket.http.response" if websocket else "http.response"
    encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    encoded.append((b"content-length", str(len(body)).encode()))
    await send({"type": f"{kind}.start", "status": status, "headers": encoded})
    await send({"type": f"{kind}.body", "body": body})
