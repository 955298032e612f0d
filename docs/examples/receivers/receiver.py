# A receiver of callbacks: WEBHOOK_SECRET=whsec_… PORT=8000 python3 receiver.py
import base64, hashlib, hmac, json, os, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRETS = [base64.b64decode(s.removeprefix("whsec_")) for s in os.environ["WEBHOOK_SECRET"].split(",")]
assert all(len(s) >= 24 for s in SECRETS), "want secrets of 24 bytes or more"
LIMIT = 1 << 20  # bytes of a body
events, lock = {}, threading.Lock()  # key: done. A database keeps them for some days, in the transaction of the work.


def valid(headers, body):
    id, at, signatures = (headers.get("webhook-" + name, "") for name in ("id", "timestamp", "signature"))
    if not at.isdecimal() or abs(time.time() - int(at)) > 300:
        return False
    right = False
    for secret in SECRETS:
        mac = hmac.new(secret, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
        want = ("v1," + base64.b64encode(mac).decode()).encode()
        for given in signatures.split():
            right |= hmac.compare_digest(want, given.encode())
    return right


def work(event):
    print("paid", event["order"], flush=True)


def receive(headers, body):
    """Returns the status of the answer."""
    if not valid(headers, body):
        return 401
    key = headers["webhook-id"] + "#" + headers.get("notifier-resend", "")  # a resend is to be processed again
    with lock:
        if key in events:
            return 200 if events[key] else 409  # 409: the same event is being processed, and is sent again later
        events[key] = False
    try:
        work(json.loads(body))
    except Exception as error:
        print("failed", error, flush=True)
        del events[key]  # the next attempt does the work again
        return 500
    events[key] = True
    return 200


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(min(int(self.headers.get("content-length", 0)), LIMIT + 1))
        status = receive(self.headers, body) if len(body) <= LIMIT else 413
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("", int(os.environ.get("PORT", "8000"))), Handler).serve_forever()
