"""Client of the control API: JSON-RPC 2.0 over HTTP, one connection at a time."""

import http.client
import itertools
import json
import threading
import urllib.parse


class ControlError(Exception):
    """A request that the server refuses."""

    def __init__(self, method, error):
        details = error.get("data")
        message = error.get("message", "")
        super().__init__(f"{method}: {message}" + (f": {details}" if details else ""))
        self.code = error.get("code")


class Control:
    """Connection to the control API."""

    def __init__(self, address):
        self._host = urllib.parse.urlsplit(address).netloc
        self._numbers = itertools.count(1)
        self._connection = None
        self._lock = threading.Lock()

    def call(self, method, params):
        """Calls a method with parameters by position or by name, and returns the result."""
        body = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        with self._lock:
            answer = self._send(json.dumps(body))
        if "error" in answer:
            raise ControlError(method, answer["error"])
        return answer["result"]

    def _send(self, body):
        is_new = self._connection is None
        if is_new:
            self._connection = http.client.HTTPConnection(self._host)
        try:
            self._connection.request("POST", "/", body, {"Content-Type": "application/json"})
            return self._read()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # An idle connection may be closed. The request has not been executed then.
            self.close()
            if is_new:
                raise
        return self._send(body)

    def _read(self):
        response = self._connection.getresponse()
        text = response.read()
        if response.status != http.client.OK:
            raise ControlError("HTTP", {"message": f"{response.status} {text.decode(errors='replace')}"})
        return json.loads(text)

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None
