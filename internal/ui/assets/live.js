// Keeps the live blocks of a page up to date: the server sends each that has
// changed, rendered. Says whether the page is live, and stands still on demand.
"use strict";

(() => {
  const path = document.body.dataset.live;
  const state = document.getElementById("live-state");
  const hold = document.getElementById("live-hold");
  const again = document.getElementById("live-again");
  if (!path || !state || !window.EventSource) return;

  let held = false;
  let last = new Date();
  const waiting = new Map(); // blocks that came while the page stood still

  const clock = () => last.toISOString().slice(11, 19);
  const say = (what, text) => {
    state.dataset.state = what;
    again.hidden = what === "live";
    if (state.textContent !== text) state.textContent = text;
  };
  const show = (html) => {
    const block = new DOMParser().parseFromString(html, "text/html").body.firstElementChild;
    const here = block && document.getElementById(block.id);
    if (here) morph(here, block);
  };

  // told says how old the figures are: not live, if the server has none of this moment.
  const told = () => {
    if (held) return;
    if (document.querySelector("[data-stale]")) say("lost", "Outdated");
    else say("live", "Live");
  };

  // A refused connection, unlike a lost one, is not made again by the browser.
  let events;
  const connect = () => {
    events = new EventSource(path);
    events.addEventListener("block", (e) => {
      last = new Date();
      if (held) {
        waiting.set(e.data.slice(0, 40), e.data); // the later one of a block counts
        return;
      }
      show(e.data);
      told();
      document.dispatchEvent(new Event("notifier:changed"));
    });
    events.addEventListener("open", told);
    events.addEventListener("error", () => {
      if (!held) say("lost", "Not connected: shown as of " + clock() + " UTC");
      if (events.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
    });
  };
  connect();

  hold.hidden = false;
  hold.addEventListener("click", () => {
    held = !held;
    hold.setAttribute("aria-pressed", String(held));
    if (held) {
      say("still", "Updates paused at " + clock() + " UTC");
      return;
    }
    waiting.forEach(show);
    waiting.clear();
    if (events.readyState === EventSource.OPEN) told();
    else say("lost", "Not connected");
  });
  addEventListener("pagehide", () => events.close());
})();
