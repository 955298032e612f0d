// Schedules a notice, and verifies a callback's signature. Node 18 or newer, no packages.
import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

// Schedules a notice and returns { status, answer }. Repeating is safe: the key and the content decide.
export async function schedule(base, token, notice, tries = 5) {
  for (let attempt = 1; ; attempt++) {
    try {
      const response = await fetch(base + "/v1/notices", {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
        body: JSON.stringify(notice),
        signal: AbortSignal.timeout(10_000),
      });
      // 201 created, 200 kept already; any status but 503 stays what it is.
      if (response.status !== 503 || attempt === tries) return { status: response.status, answer: await response.json() };
    } catch (error) {
      if (attempt === tries) throw error; // no answer: it may have arrived or not
    }
    await sleep(Math.min(2 ** attempt, 30) * 1000);
  }
}

// Tells whether the callback is genuine. body: a Buffer, as received. secrets: an array, two while rotating.
export function verify(secrets, headers, body, tolerance = 300) {
  const timestamp = headers["webhook-timestamp"] ?? "";
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > tolerance) return false;
  const given = (headers["webhook-signature"] ?? "").split(" ").map((s) => Buffer.from(s));
  let right = false;
  for (const secret of secrets) {
    const mac = createHmac("sha256", Buffer.from(secret.slice("whsec_".length), "base64"));
    mac.update(`${headers["webhook-id"]}.${timestamp}.`).update(body);
    const want = Buffer.from("v1," + mac.digest("base64"));
    for (const signature of given) {
      if (signature.length === want.length && timingSafeEqual(signature, want)) right = true;
    }
  }
  return right;
}

const [command, id, timestamp, signature] = process.argv.slice(2);
if (command === "schedule") {
  const notice = { key: process.env.KEY, delay: "15s", body: { order: 4711, paid: true } };
  if (process.env.HOOK_URL) notice.url = process.env.HOOK_URL;
  const base = process.env.NOTIFIER_URL ?? "http://127.0.0.1:8080";
  const { status, answer } = await schedule(base, process.env.NOTIFIER_TOKEN ?? "", notice);
  console.log(status);
  if (status >= 300) console.error(answer.detail);
  process.exitCode = status < 300 ? 0 : 1;
} else if (command === "verify" && signature !== undefined) {
  const headers = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature };
  process.exitCode = verify(process.env.WEBHOOK_SECRET.split(","), headers, readFileSync(0)) ? 0 : 1;
} else {
  console.error("usage: notifier.mjs schedule | verify ID TIMESTAMP SIGNATURE");
  process.exitCode = 2;
}
