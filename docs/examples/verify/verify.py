import base64, hashlib, hmac, json, time
from urllib.parse import parse_qsl
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding

def fresh(seconds):
    return abs(time.time() - int(seconds)) <= 300

def rsa_fits(public_pem, text, signature):
    key = serialization.load_pem_public_key(public_pem.encode())
    try:
        key.verify(base64.b64decode(signature), text, padding.PKCS1v15(), hashes.SHA256())
        return True
    except (InvalidSignature, ValueError):
        return False

def standard(secret, headers, body):
    key = base64.b64decode(secret.removeprefix("whsec_"))
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    want = "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    given = headers["webhook-signature"].split()
    return fresh(headers["webhook-timestamp"]) and any(hmac.compare_digest(want, s) for s in given)

def wechatpay(public_pem, headers, body):
    text = f"{headers['wechatpay-timestamp']}\n{headers['wechatpay-nonce']}\n".encode() + body + b"\n"
    return fresh(headers["wechatpay-timestamp"]) and rsa_fits(public_pem, text, headers["wechatpay-signature"])

def alipay(public_pem, headers, body):
    fields = parse_qsl(body.decode(), keep_blank_values=True)
    form = dict(fields)
    if len(form) != len(fields) or form.get("sign_type") != "RSA2" or "sign" not in form:
        return False
    text = "&".join(f"{k}={form[k]}" for k in sorted(form) if k not in ("sign", "sign_type"))
    return rsa_fits(public_pem, text.encode(), form["sign"])

def sorted_fields(key, headers, body, jeepay=False):
    pairs = parse_qsl(body.decode(), keep_blank_values=True)
    if body.lstrip().startswith(b"{"):  # numbers and bools as they are written
        pairs = json.loads(body, object_pairs_hook=list, parse_int=str, parse_float=str)
        pairs = [(k, {True: "true", False: "false", None: ""}.get(v, v)) for k, v in pairs]
    fields = dict(pairs)
    if len(fields) != len(pairs) or "sign" not in fields:
        return False
    order = (lambda k: k.lower() + "=") if jeepay else str
    text = "&".join(f"{k}={fields[k]}" for k in sorted(fields, key=order) if k != "sign" and fields[k] != "") + "&key=" + key
    if fields.get("signType" if jeepay else "sign_type") == "HMAC-SHA256":
        want = hmac.new(key.encode(), text.encode(), hashlib.sha256)
    else:
        want = hashlib.md5(text.encode())
    return hmac.compare_digest(want.hexdigest().upper(), fields["sign"])

def sorted_jeepay(key, headers, body):
    return sorted_fields(key, headers, body, jeepay=True)
