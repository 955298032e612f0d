#!/usr/bin/env python3
"""Writes vectors.json: python3 vectors.py > vectors.json

Seals, wraps and digests with Python's cryptography library, written from the format in docs/security.md. It shares no code
with package seal.
"""
import base64
import hashlib
import hmac
import json

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

VERSION = "notifier-seal-1"


def b64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def numbers(label, size):
    """Bytes that look random and are the same in each run."""
    return hashlib.sha256(label.encode()).digest()[:size]


def encrypt(secret, salt, plain, *names):
    key = HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=names[0].encode()).derive(secret)
    bound = "\n".join((VERSION,) + names + (b64(salt),)).encode()
    return b64(salt + AESGCM(key).encrypt(bytes(12), plain, bound))


def wrap(name, service_key, use, space, subject, key_id, secret):
    salt = numbers("salt of wrap " + key_id, 16)
    return f"w1:{name}:" + encrypt(service_key, salt, secret, use, space, subject, key_id, name)


def seal(kind, secret, key_id, space, notice, plain):
    salt = numbers("salt of " + kind + notice, 16)
    return f"s1{kind[0]}:{key_id}:" + encrypt(secret, salt, plain, kind, space, key_id, notice)


def digest(secret, key_id, space, notice, content):
    bound = "\n".join((VERSION, "digest", space, key_id, notice, "")).encode()
    return b64(hmac.new(secret, bound + content, hashlib.sha256).digest()[:16])


PLAINS = [
    b"",
    b'{"card":"4111111111111111"}',
    "支付成功".encode(),
    bytes(range(256)),
    b'{"json":{"card":"4111111111111111"}}',
]

vectors = []
for i, (name, subject, notice) in enumerate([
    ("2026-11", "route:shop:order", "shop:order:paid:O1"),
    ("2026-05", "audience:m_77", "shop:order:paid:O2~1"),
    ("old.key_1", "id:shop:order:O3", "shop:order:refund:O3~2"),
    ("2026-11", "id:shop:order:O4", "shop:order:refund:O4"),
    ("2026-11", "id:shop:order:books", "shop:order:daily:books"),  # a recurring notice: also the text of books~1, books~2, …
]):
    space = ["notifier", "staging"][i % 2]
    service_key = numbers("service key " + name, 32)
    data_id, digest_id = b64(numbers(f"data id {i}", 12)), b64(numbers(f"digest id {i}", 12))
    data, dig = numbers(f"data key {i}", 32), numbers(f"digest key {i}", 32)
    kind = ["content", "answer", "history", "content", "recurring"][i]
    vectors.append({
        "service_key": name + "=" + base64.b64encode(service_key).decode(),
        "namespace": space,
        "subject": subject,
        "notice": notice,
        "data_key": data_id,
        "wrapped_data_key": wrap(name, service_key, "data key", space, subject, data_id, data),
        "digest_key": digest_id,
        "wrapped_digest_key": wrap(name, service_key, "digest key", space, subject, digest_id, dig),
        "kind": kind,
        "plain": base64.b64encode(PLAINS[i]).decode(),
        "text": seal(kind, data, data_id, space, notice, PLAINS[i]),
        "digest": digest(dig, digest_id, space, notice, PLAINS[i]),
    })

print(json.dumps(vectors, indent=1, ensure_ascii=False))
