// Keeps the live blocks of a page up to date: the server sends each block that has changed, rendered.
// Shows whether the page is live. A button pauses the updates. The texts are in the page, in its language.
"use strict";

(() => {
  const path = document.body.dataset.live;
  const state = document.getElementById("live-state");
  const hold = document.getElementById("live-hold");
  const again = document.getElementById("live-again");
  if (!path || !state || !window.EventSource) return;

  let held = false;
  let last = new Date();
  const waiting = new Map(); // blocks that came while updates were paused

  const clock = () => last.toISOString().slice(11, 19);
  const texts = { ...state.dataset };
  const say = (what, text) => {
    const shown = text.replace("%s", clock());
    state.dataset.state = what;
    again.hidden = what === "live";
    if (state.textContent !== shown) state.textContent = shown;
  };
  const show = (html) => {
    const block = new DOMParser().parseFromString(html, "text/html").body.firstElementChild;
    const here = block && document.getElementById(block.id);
    if (here) morph(here, block);
  };

  // The figures are outdated if the server could not read new ones.
  const connected = () => {
    if (held) return;
    if (document.querySelector("[data-stale]")) say("lost", texts.outdated);
    else say("live", texts.connected);
  };

  // The browser retries a lost connection, but not a refused one.
  let events;
  const connect = () => {
    events = new EventSource(path);
    events.addEventListener("block", (e) => {
      last = new Date();
      if (held) {
        waiting.set(e.data.slice(0, 40), e.data); // the last one of each block
        return;
      }
      show(e.data);
      connected();
      document.dispatchEvent(new Event("notifier:changed"));
    });
    events.addEventListener("open", connected);
    events.addEventListener("error", () => {
      if (!held) say("lost", texts.lost);
      if (events.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
    });
  };
  connect();

  hold.hidden = false;
  hold.addEventListener("click", () => {
    held = !held;
    hold.setAttribute("aria-pressed", String(held));
    if (held) {
      say("still", texts.held);
      return;
    }
    waiting.forEach(show);
    waiting.clear();
    if (events.readyState === EventSource.OPEN) connected();
    else say("lost", texts.closed);
  });
  addEventListener("pagehide", () => events.close());
})();
