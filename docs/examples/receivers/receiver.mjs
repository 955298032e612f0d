// A receiver of callbacks: WEBHOOK_SECRET=whsec_… PORT=8000 node receiver.mjs
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const secrets = process.env.WEBHOOK_SECRET.split(",").map((s) => Buffer.from(s.replace("whsec_", ""), "base64"));
if (secrets.some((s) => s.length < 24)) throw new Error("want secrets of 24 bytes or more");
const events = new Map(); // key: done. A database keeps them for some days, in the transaction of the work.

function valid(headers, body) {
  const [id, at, signatures] = ["id", "timestamp", "signature"].map((name) => headers["webhook-" + name] ?? "");
  if (!/^\d+$/.test(at) || Math.abs(Date.now() / 1000 - Number(at)) > 300) return false;
  let right = false;
  for (const secret of secrets) {
    const want = Buffer.from("v1," + createHmac("sha256", secret).update(`${id}.${at}.`).update(body).digest("base64"));
    for (const given of signatures.split(" ").map((s) => Buffer.from(s))) {
      if (given.length === want.length && timingSafeEqual(given, want)) right = true;
    }
  }
  return right;
}

async function work(event) {
  console.log("paid", event.order);
}

// Returns the status of the answer.
async function receive(headers, body) {
  if (!valid(headers, body)) return 401;
  const key = headers["webhook-id"] + "#" + (headers["notifier-resend"] ?? ""); // a resend is to be processed again
  if (events.has(key)) return events.get(key) ? 200 : 409; // 409: the same event is being processed, and is sent again later
  events.set(key, false);
  try {
    await work(JSON.parse(body.toString("utf8")));
  } catch (error) {
    console.log("failed", error);
    events.delete(key); // the next attempt does the work again
    return 500;
  }
  events.set(key, true);
  return 200;
}

createServer(async (request, response) => {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size <= 1 << 20) parts.push(part);
  }
  response.statusCode = size > 1 << 20 ? 413 : await receive(request.headers, Buffer.concat(parts));
  response.end();
}).listen(Number(process.env.PORT ?? 8000));
