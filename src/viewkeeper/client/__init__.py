"""A client of `viewkeeper serve`: SQL and subscriptions over HTTP, without an engine.

import viewkeeper as vk
db = vk.client.connect("http://localhost:8780", token="...")
"""

from viewkeeper.client.remote_database import RemoteCommit, RemoteDatabase, RemoteResult, connect
from viewkeeper.client.remote_subscription import RemoteSubscription

__all__ = ["RemoteCommit", "RemoteDatabase", "RemoteResult", "RemoteSubscription", "connect"]
