#!/usr/bin/env python3
"""Opens a sealed text with a service key, for programs that may not call POST /v1/open: see docs/security.md, "Format of
sealed texts". Needs the package cryptography.

  python3 open.py NAMESPACE DATA_KEY_FIELD NOTICE_KEY TEXT     (SERVICE_KEYS is NOTIFIER_SEAL_KEYS)

DATA_KEY_FIELD is the value of the data key in Redis: redis-cli HGET 'notifier:{0}:seals' <the second part of TEXT>.
"""
import base64
import os
import re
import sys

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

VERSION = "notifier-seal-1"
KINDS = {"s1c": "content", "s1a": "answer", "s1h": "history", "s1r": "recurring"}


def open_text(service_keys, namespace, field, notice, text):
    """Returns the plain text. It raises an exception if the text was changed, or is of another notice, key or namespace."""
    mark, key_id, box = text.split(":")
    if mark == "s1r":  # the notices of a recurring notice have its text
        notice = re.sub("~[1-9][0-9]*$", "", notice)
    subject, wrapped = field.split(" ")
    _, name, wrap = wrapped.split(":")
    keys = dict(part.strip().split("=", 1) for part in service_keys.split(","))
    data_key = decrypt(base64.b64decode(keys[name]), wrap, "data key", namespace, subject, key_id, name)
    return decrypt(data_key, box, KINDS[mark], namespace, key_id, notice)


def decrypt(secret, box, *names):
    """Opens a box. The first name is its use."""
    raw = base64.urlsafe_b64decode(box + "=" * (-len(box) % 4))
    salt, text = raw[:16], raw[16:]
    key = HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=names[0].encode()).derive(secret)
    bound = "\n".join((VERSION,) + names + (base64.urlsafe_b64encode(salt).decode().rstrip("="),))
    return AESGCM(key).decrypt(bytes(12), text, bound.encode())


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: open.py NAMESPACE DATA_KEY_FIELD NOTICE_KEY TEXT, with SERVICE_KEYS in the environment")
    sys.stdout.buffer.write(open_text(os.environ["SERVICE_KEYS"], *sys.argv[1:]))
