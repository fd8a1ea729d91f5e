"""A server that speaks as OpenAI's chat completions do and calls one tool, for the real client."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override

SECRET = "sk-very-secret-0123456789"  # noqa: S105 - nobody's


@dataclass
class OpenAIServer:
    """A running server: ``asked`` counts its requests, ``keys`` are the credentials that came with them."""

    url: str
    keys: list[str] = field(default_factory=list)

    @property
    def asked(self) -> int:
        return len(self.keys)


@contextmanager
def openai_server() -> Generator[OpenAIServer]:
    class Handler(BaseHTTPRequestHandler):
        @override
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            served.keys.append(self.headers["Authorization"])
            call = {
                "id": f"call_{served.asked}",
                "type": "function",
                "function": {"name": "QuoteOrder", "arguments": '{"plan": "small"}'},
            }
            message = {"role": "assistant", "content": f"Quote {served.asked}", "tool_calls": [call]}
            body = {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": "gpt-test",
                "system_fingerprint": "fp_of_the_provider",
                "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
                "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
            }
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("X-Request-Id", "req_of_the_provider")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = OpenAIServer(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
