// Shows times in the reader's own zone, with UTC in the title, or in UTC, as the server renders them, if the reader has
// chosen that. A cookie holds the zone, so that the server reads times in the same zone. The texts are in the page, in its
// language.
"use strict";

(() => {
  const name = "notifier_zone";
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const button = document.getElementById("zone-switch");
  const label = document.getElementById("zone");
  const kept = () => (document.cookie.split("; ").find((c) => c.startsWith(name + "=")) || "").slice(name.length + 1);
  const keep = (z) => { document.cookie = name + "=" + encodeURIComponent(z) + "; max-age=31536000; path=/ui/; samesite=lax"; };
  const chosen = () => zone !== "UTC" && kept() !== "UTC";

  const format = (at, timeZone) => {
    const parts = {};
    for (const p of new Intl.DateTimeFormat("en-GB", { timeZone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit",
      hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "shortOffset" }).formatToParts(at)) parts[p.type] = p.value;
    return { day: parts.year + "-" + parts.month + "-" + parts.day, clock: parts.hour + ":" + parts.minute + ":" + parts.second,
      zone: /^(UTC|GMT(\+0)?)$/.test(parts.timeZoneName) ? "UTC" : parts.timeZoneName };
  };
  const show = () => {
    const local = chosen(), today = format(new Date(), local ? zone : "UTC").day;
    for (const t of document.querySelectorAll("time[datetime]")) {
      const at = new Date(t.dateTime);
      if (isNaN(at)) continue;
      const here = format(at, local ? zone : "UTC"), there = format(at, local ? "UTC" : zone);
      const full = / (UTC|GMT\S*)$/.test(t.textContent);
      const text = full ? here.day + " " + here.clock + " " + here.zone : here.day === today ? here.clock : here.day + " " + here.clock;
      if (t.textContent !== text) t.textContent = text;
      t.title = there.day + " " + there.clock + " " + there.zone;
    }
    label.textContent = local ? label.dataset.local.replace("%s", zone) : label.dataset.utc;
    button.textContent = local ? button.dataset.utc : button.dataset.local;
  };

  // The age of each sample, once it is over 3 s. The smallest difference from the latest sample is that of the two clocks: a
  // live page gets a sample as soon as it is taken.
  let skew = Infinity;
  const age = () => {
    const samples = [...document.querySelectorAll(".sampled")].map((s) => ({ s, at: Date.parse(s.querySelector("time").dateTime) }));
    skew = Math.min(skew, Date.now() - Math.max(...samples.map((x) => x.at)));
    for (const { s, at } of samples) {
      const seconds = Math.floor((Date.now() - skew - at) / 1000);
      const text = seconds < 120 ? s.dataset.seconds.replace("%s", seconds) : s.dataset.minutes.replace("%s", Math.floor(seconds / 60));
      const [time, shown] = s.children;
      time.hidden = true;
      if (shown.textContent !== (seconds > 3 ? text : "")) shown.textContent = seconds > 3 ? text : "";
    }
  };

  button.hidden = zone === "UTC";
  button.addEventListener("click", () => {
    keep(chosen() ? "UTC" : zone);
    show();
  });
  if (chosen() && kept() !== encodeURIComponent(zone)) {
    keep(zone);
    // The server has read the words of this search in another zone.
    if (kept() === encodeURIComponent(zone) && document.getElementById("times")) location.reload();
  }
  show();
  document.addEventListener("notifier:changed", show);
  if (document.querySelector(".sampled")) {
    age();
    setInterval(age, 1000);
    document.addEventListener("notifier:changed", age);
  }
})();
