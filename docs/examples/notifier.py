"""Schedules a notice, verifies a callback's signature, and opens a sealed entry of a list or stream. Python 3.8, no packages."""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request


def schedule(base, token, notice):
    """Schedules a notice and returns (status, answer). Repeating is safe: the key and the content decide."""
    return post(base + "/v1/notices", token, notice)


def content(base, token, entry):
    """Returns the body of an entry, as bytes. A sealed entry of a route with SEAL is opened by the service."""
    if "sealed" in entry:
        status, opened = post(base + "/v1/open", token, {"key": entry["key"], "sealed": entry["sealed"]})
        if status != 200:  # 410: forgotten, 422: changed: the entry never opens. Otherwise defer the notice.
            raise RuntimeError(f"{status}: {opened.get('detail')}")
        if "body" in opened:  # JSON, here without its white space; the service's answer has it byte for byte
            return json.dumps(opened["body"], separators=(",", ":"), ensure_ascii=False).encode()
        return base64.b64decode(opened.get("body_base64", ""))
    if "body_base64" in entry:
        return base64.b64decode(entry["body_base64"])
    body = entry.get("body", "")
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def post(url, token, call, tries=5):
    """Makes a call that may be repeated, and returns (status, answer)."""
    request = urllib.request.Request(
        url,
        data=json.dumps(call).encode(),
        headers={"Content-Type": "application/json", "Authorization": "Bearer " + token},
        method="POST",
    )
    for attempt in range(1, tries + 1):
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.load(answer)  # 201 created, 200 kept already
        except urllib.error.HTTPError as problem:
            if problem.code != 503 or attempt == tries:  # any other status stays what it is
                return problem.code, json.load(problem)
        except OSError:  # no answer: it may have arrived or not
            if attempt == tries:
                raise
        time.sleep(min(2**attempt, 30))


def verify(secrets, headers, body, tolerance=300):
    """Tells whether the callback is genuine. body: the bytes as received. secrets: a list, two while rotating."""
    try:
        timestamp = int(headers["webhook-timestamp"])
        signed = f"{headers['webhook-id']}.{timestamp}.".encode() + body
        given = headers["webhook-signature"].split(" ")
    except (KeyError, ValueError):
        return False
    if abs(time.time() - timestamp) > tolerance:
        return False
    right = False
    for secret in secrets:
        key = base64.b64decode(secret[len("whsec_"):])
        want = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
        for signature in given:
            right |= hmac.compare_digest(signature.encode(), want)
    return right


def main(args):
    if args == ["schedule"]:
        notice = {"key": os.environ["KEY"], "delay": "15s", "body": {"order": 4711, "paid": True}}
        if os.environ.get("HOOK_URL"):
            notice["url"] = os.environ["HOOK_URL"]
        base = os.environ.get("NOTIFIER_URL", "http://127.0.0.1:8080")
        status, answer = schedule(base, os.environ.get("NOTIFIER_TOKEN", ""), notice)
        print(status)
        if status >= 300:
            print(answer.get("detail"), file=sys.stderr)
        return 0 if status < 300 else 1
    if args == ["content"]:
        base = os.environ.get("NOTIFIER_URL", "http://127.0.0.1:8080")
        sys.stdout.buffer.write(content(base, os.environ.get("NOTIFIER_TOKEN", ""), json.load(sys.stdin)))
        return 0
    if len(args) == 4 and args[0] == "verify":
        headers = dict(zip(("webhook-id", "webhook-timestamp", "webhook-signature"), args[1:]))
        return 0 if verify(os.environ["WEBHOOK_SECRET"].split(","), headers, sys.stdin.buffer.read()) else 1
    print("usage: notifier.py schedule | content | verify ID TIMESTAMP SIGNATURE", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
