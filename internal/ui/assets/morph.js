// Makes a part of the page equal to the part that the server has just rendered, with as few changes as
// possible: selections, open menus and the focus of the keyboard stay.
"use strict";

function morph(from, to) {
  if (from.isEqualNode(to)) return;
  for (const a of [...from.attributes]) {
    if (!to.hasAttribute(a.name) && a.name !== "open") from.removeAttribute(a.name);
  }
  for (const a of to.attributes) {
    if (from.getAttribute(a.name) !== a.value) from.setAttribute(a.name, a.value);
  }
  morphChildren(from, to);
}

function morphChildren(from, to) {
  const wanted = [...to.childNodes];
  wanted.forEach((want, i) => {
    const have = from.childNodes[i];
    if (!have) {
      from.append(want);
    } else if (have.nodeType !== want.nodeType || have.nodeName !== want.nodeName || (have.id || "") !== (want.id || "")) {
      have.replaceWith(want);
    } else if (want.nodeType !== Node.ELEMENT_NODE) {
      if (have.nodeValue !== want.nodeValue) have.nodeValue = want.nodeValue;
    } else {
      morph(have, want);
    }
  });
  while (from.childNodes.length > wanted.length) from.lastChild.remove();
}
