// Links that save a picture as SVG or PNG, and a table as CSV, without a network.
function save(name, blob) {
  const link = document.createElement("a"), address = URL.createObjectURL(blob);
  Object.assign(link, { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// The picture in light colours, for papers and other programs.
function drawn(svg) {
  const copy = svg.cloneNode(true), [, , width, height] = svg.getAttribute("viewBox").split(" ");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("font-family", "system-ui, sans-serif");
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of [["width", width], ["height", height], ["fill", "white"]]) paper.setAttribute(name, value);
  copy.prepend(paper);
  const text = new XMLSerializer().serializeToString(copy).replace(/var\(--[\w-]+,\s*(#[0-9a-f]{6})\)/g, "$1");
  return { text, width: Number(width), height: Number(height) };
}

function savePixels(svg, name) {
  const { text, width, height } = drawn(svg), image = new Image(), canvas = document.createElement("canvas"), scale = 3;
  image.onload = () => {
    Object.assign(canvas, { width: width * scale, height: height * scale });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(name, blob), "image/png");
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
}

// Cells that a spreadsheet would take for formulas are texts.
function csv(table) {
  const cell = (text) => {
    const plain = text.replace(/\u2011/g, "-"), safe = /^(?:[=@\t\r]|[+-](?![\d.]))/.test(plain) ? "'" + plain : plain;
    return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
  };
  return [...table.rows].map((row) => [...row.cells].map((one) => cell(one.textContent)).join(",")).join("\n") + "\n";
}

function link(text, label, act) {
  const made = document.createElement("button");
  Object.assign(made, { type: "button", textContent: text, title: label, ariaLabel: label });
  made.addEventListener("click", act);
  return made;
}

for (const figure of document.querySelectorAll("figure[id]")) {
  const svg = figure.querySelector(".drawing svg"), name = figure.id.replace("picture-", "");
  const links = Object.assign(document.createElement("span"), { className: "export" });
  links.append(
    link("SVG", `Save ${name} as SVG`, () => save(`${name}.svg`, new Blob([drawn(svg).text], { type: "image/svg+xml" }))),
    link("PNG", `Save ${name} as PNG`, () => savePixels(svg, `${name}.png`)));
  figure.querySelector("figcaption").append(" ", links);
}
for (const table of document.querySelectorAll("table[data-name]")) {
  const name = table.dataset.name, links = Object.assign(document.createElement("span"), { className: "export" });
  links.append(link("CSV", `Save ${name} as CSV`, () => save(`${name}.csv`, new Blob([csv(table)], { type: "text/csv" }))));
  document.getElementById(`head-${name}`).append(" ", links);
}
