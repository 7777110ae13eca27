"""A server with a planted leak: a cache of answers without a bound. LEAK=0 is its healthy twin."""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LEAKS = os.environ.get("LEAK") != "0"
ANSWERS = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one segment an answer: two would wait for each other (Nagle, delayed acknowledgments)

    def do_GET(self):
        answer = f"hello {self.path}\n".encode() * 40
        if LEAKS:
            # The key is never asked for again.
            ANSWERS[len(ANSWERS)] = answer
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 18003
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
