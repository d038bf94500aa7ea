#!/usr/bin/env python3
"""A small service with state: notes in a file, over HTTP. Its form of the data is NOTES_FORMAT.

GET /ready    GET /version    GET /notes    POST /notes (a line of text)    GET /search?TEXT (from form 2 on)
"""
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

FORM = int(os.environ["NOTES_FORMAT"])
DATA = Path(os.environ["HOLDFAST_DATA_DIR"])
with open(os.environ["HOLDFAST_CONFIG"]) as file:
    CONFIG = json.load(file)

STORE = DATA / f"notes.v{FORM}"
if not STORE.exists():
    newer = [p.name for p in DATA.glob("notes.v*") if int(p.name.rsplit("v", 1)[1]) > FORM]
    if newer:
        sys.exit(f"there is {newer[0]}, which is newer than this program")
    STORE.write_text("[]")


def notes():
    return json.loads(STORE.read_text())


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/ready":
            self.answer(200 if "NOTES_BROKEN" not in os.environ else 503, {"form": FORM})
        elif url.path == "/version":
            self.answer(200, {"release": os.environ["HOLDFAST_RELEASE"], "title": CONFIG.get("title", CONFIG.get("heading"))})
        elif url.path == "/notes":
            self.answer(200, notes())
        elif url.path == "/search" and FORM >= 2:
            self.answer(200, [note for note in notes() if unquote(url.query) in note["text"]])
        else:
            self.answer(404, "not found")

    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        note = text if FORM == 1 else {"text": text, "at": time.time()}
        temporary = STORE.with_suffix(".new")
        with open(temporary, "w") as file:
            json.dump(notes() + [note], file)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(STORE)
        self.answer(201, note)

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", int(CONFIG["port"])), Handler).serve_forever()
