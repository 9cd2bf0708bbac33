"""The server: views over HTTP, Server-Sent Events and WebSocket, with tokens and limits."""
