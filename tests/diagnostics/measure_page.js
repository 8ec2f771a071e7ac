// What a frame shows, for the tests of pages.
//
// Elements are listed that stick out of the window, or of a box that hides what does not fit,
// unless a box around them can be scrolled; and figures are counted that show nothing.
const SCROLLS = ["auto", "scroll"];

function isScrolled(one) {
  for (let box = one.parentElement; box; box = box.parentElement)
    if (SCROLLS.includes(getComputedStyle(box).overflowX)) return true;
  return false;
}

function sticksOut(one, width) {
  const box = one.getBoundingClientRect(), style = getComputedStyle(one);
  if (!box.width || one.closest("defs, clipPath, script") || isScrolled(one)) return false;
  if (["g", "use", "path"].includes(one.tagName)) return false;
  const clipped = ["hidden", "clip"].includes(style.overflowX) && one.scrollWidth > one.clientWidth + 1;
  return clipped || box.right > width + 1 || box.left < -1;
}

function measured(frame) {
  const page = frame.contentDocument, width = page.documentElement.clientWidth;
  const all = (selector) => [...page.querySelectorAll(selector)];
  const seen = (one) => one !== null && one.getClientRects().length > 0;
  const shows = (one) => seen(one.querySelector(".drawing")) || seen(one.querySelector("canvas"));
  return {
    width,
    needed: page.documentElement.scrollWidth,
    out: all("body *").filter((one) => sticksOut(one, width)).map((one) => one.outerHTML.slice(0, 99)),
    tables: all(".scroll").length,
    closed: all(".scroll").filter((one) => !SCROLLS.includes(getComputedStyle(one).overflowX)).length,
    hidden: all("figure").filter((one) => !shows(one)).length,
    live: all("figure.live").length,
    height: page.documentElement.scrollHeight,
    ink: getComputedStyle(page.body).color,
    paper: getComputedStyle(page.body).backgroundColor,
  };
}

// What the viewer says of the first sensor, of its error, of nothing, and of the middle.
function read(frame) {
  const page = frame.contentDocument, { KeyboardEvent, PointerEvent } = frame.contentWindow;
  const canvas = page.querySelector("canvas"), said = [];
  if (!canvas) return null;
  const text = () => said.push(page.querySelector("output").textContent);
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "n" }));
  text();
  page.querySelectorAll(".choice input")[2].click();
  text();
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  text();
  const box = canvas.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, pointerId: 1 };
  canvas.setPointerCapture = () => {};
  for (const name of ["pointerdown", "pointerup"]) canvas.dispatchEvent(new PointerEvent(name, at));
  text();
  return { said, elements: page.querySelectorAll("img, output *").length };
}

onload = () => {
  const found = {}, named = (name) => document.querySelector(`iframe[name=${name}]`);
  for (const frame of document.querySelectorAll("iframe")) (found[frame.name] ??= []).push(measured(frame));
  document.title = JSON.stringify({ sizes: found, read: named("mesh") && read(named("mesh")) });
};
