import { createHash, createHmac, createVerify, timingSafeEqual } from "node:crypto";

const fresh = (seconds) => Math.abs(Date.now() / 1000 - Number(seconds)) <= 300;

const rsaFits = (publicPem, text, signature) => createVerify("RSA-SHA256").update(text).verify(publicPem, signature, "base64");

export function standard(secret, headers, body) {
  const mac = createHmac("sha256", Buffer.from(secret.slice("whsec_".length), "base64"));
  mac.update(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`).update(body);
  const want = Buffer.from("v1," + mac.digest("base64"));
  const given = headers["webhook-signature"].split(" ").map((s) => Buffer.from(s));
  return fresh(headers["webhook-timestamp"]) && given.some((s) => s.length === want.length && timingSafeEqual(s, want));
}

export function wechatpay(publicPem, headers, body) {
  const text = Buffer.concat([Buffer.from(`${headers["wechatpay-timestamp"]}\n${headers["wechatpay-nonce"]}\n`), body, Buffer.from("\n")]);
  return fresh(headers["wechatpay-timestamp"]) && rsaFits(publicPem, text, headers["wechatpay-signature"]);
}

export function alipay(publicPem, headers, body) {
  const fields = [...new URLSearchParams(body.toString("utf8"))];
  const form = new Map(fields);
  if (form.size !== fields.length || form.get("sign_type") !== "RSA2" || !form.has("sign")) return false;
  const names = [...form.keys()].filter((k) => k !== "sign" && k !== "sign_type");
  names.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return rsaFits(publicPem, Buffer.from(names.map((k) => `${k}=${form.get(k)}`).join("&")), form.get("sign"));
}

// Of forms; a JSON object needs a parser that keeps numbers as they are written.
export function sortedFields(key, headers, body, jeepay = false) {
  const fields = [...new URLSearchParams(body.toString("utf8"))];
  const form = new Map(fields);
  if (form.size !== fields.length || !form.has("sign")) return false;
  const order = (k) => Buffer.from(jeepay ? k.toLowerCase() + "=" : k);
  const names = [...form.keys()].filter((k) => k !== "sign" && form.get(k) !== "").sort((a, b) => Buffer.compare(order(a), order(b)));
  const text = names.map((k) => `${k}=${form.get(k)}`).join("&") + "&key=" + key;
  const hash = form.get(jeepay ? "signType" : "sign_type") === "HMAC-SHA256" ? createHmac("sha256", key) : createHash("md5");
  const want = Buffer.from(hash.update(text).digest("hex").toUpperCase()), given = Buffer.from(form.get("sign"));
  return given.length === want.length && timingSafeEqual(given, want);
}

export const sortedJeepay = (key, headers, body) => sortedFields(key, headers, body, true);
