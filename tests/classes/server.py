"""An HTTP server that answers each request with a call of its model, in a thread of its own. Writes its port to a file."""

import http.server
import os
import sys

import torch

model = torch.nn.Linear(64, 64).eval()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with torch.no_grad():
            answer = str(model(torch.ones(1, 64)).sum().item()).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
