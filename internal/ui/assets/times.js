// Tells each time in the reader's own zone when it is pointed at. The page itself
// says UTC, so that two people who read it speak of the same time.
"use strict";

(() => {
  const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const tell = () => {
    for (const t of document.querySelectorAll("time[datetime]")) {
      const at = new Date(t.dateTime);
      if (!isNaN(at)) t.title = local.format(at) + "\n" + t.dateTime;
    }
  };
  tell();
  document.addEventListener("notifier:changed", tell);
})();
