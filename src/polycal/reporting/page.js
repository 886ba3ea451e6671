"use strict";
(() => {
  const { classes, rows } = JSON.parse(document.getElementById("data").textContent);
  const body = document.querySelector("#table tbody");
  const heads = [...document.querySelectorAll("#table th")];
  const filter = document.getElementById("filter");
  const count = document.getElementById("count");
  const detail = document.getElementById("detail");
  const ORDER = { out: 0, edge: 1, "in distribution": 2 };

  const top = (p) => p.reduce((best, v, i) => (v > p[best] ? i : best), 0);
  const digits = (v, n = 3) => (v === null ? "infinite" : Number(v).toFixed(n));
  const small = (v) => (v === null ? "infinite" : String(v));

  const lines = rows.map((row, id) => {
    const guess = row.prediction;
    return {
      id, row: row.row, set: row.set, row_: row,
      label: row.label === null ? "" : classes[row.label],
      prediction: classes[guess],
      wrong: row.label !== null && row.label !== guess,
      confidence: row.proba[guess],
      parent: row.parent[top(row.parent)],
      weight: row.weight, verdict: row.verdict,
      feature: row.features.length ? row.features[0].name : "",
    };
  });

  let key = "weight", sign = 1, chosen = null, tr = new Map();

  const rank = (line) => (key === "verdict" ? ORDER[line.verdict] : line[key]);
  function compare(a, b) {
    const x = rank(a), y = rank(b);
    const order = typeof x === "number" && typeof y === "number"
      ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
    return sign * order || a.id - b.id;
  }
  function wanted(line) {
    return filter.value === "" || (filter.value === "wrong" ? line.wrong : line.verdict === filter.value);
  }
  function element(tag, text, attributes = {}) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  }

  function draw() {
    const shown = lines.filter(wanted).sort(compare);
    tr = new Map();
    body.replaceChildren(...shown.map((line, position) => {
      const node = element("tr", undefined, {
        tabindex: position === 0 ? "0" : "-1",
        "aria-selected": String(line.id === chosen), "data-id": line.id,
      });
      const cells = [
        line.row, line.set, line.label, line.prediction + (line.wrong ? " (wrong)" : ""),
        digits(line.confidence), digits(line.parent), digits(line.weight), line.verdict, line.feature,
      ];
      node.append(...cells.map((cell) => element("td", String(cell))));
      tr.set(line.id, node);
      return node;
    }));
    count.textContent = `${shown.length} of ${lines.length} rows`;
    for (const head of heads) {
      const mine = head.querySelector("button").dataset.key === key;
      head.setAttribute("aria-sort", mine ? (sign > 0 ? "ascending" : "descending") : "none");
    }
  }

  function bars(p, q) {
    const order = p.map((_, i) => i).sort((a, b) => p[b] - p[a]).slice(0, 6);
    const table = element("table");
    table.append(header(["class", "polycal", "parent"]));
    for (const c of order) {
      const line = element("tr");
      line.append(element("td", classes[c]), meter(p[c], ""), meter(q[c], " b"));
      table.append(line);
    }
    return scrolled(table);
  }
  function meter(value, style) {
    const cell = element("td");
    const box = element("span", undefined, { class: "meter" + style });
    const fill = element("span");
    fill.style.width = `${100 * value}%`;
    box.append(fill);
    cell.append(box, digits(value));
    return cell;
  }
  function header(names) {
    const head = element("thead"), line = element("tr");
    line.append(...names.map((name) => element("th", name, { scope: "col" })));
    head.append(line);
    return head;
  }
  function scrolled(table) {
    const box = element("div", undefined, { class: "scroll" });
    box.append(table);
    return box;
  }
  function sentence(line) {
    const row = line.row_;
    const share = (100 * row.p).toPrecision(3);
    const words = {
      out: "out of distribution", edge: "at the edge", "in distribution": "in distribution",
    }[row.verdict];
    return `This row is ${words}: about ${share} % of in-distribution rows look as unfamiliar. ` +
      `The answer is ${(100 * row.weight).toFixed(1)} % the model's and the rest the class priors'.`;
  }

  function show(line) {
    const row = line.row_;
    const parts = [
      element("h3", `Row ${line.row} of ${line.set}` + (line.label === "" ? "" : `, label ${line.label}`)),
      element("p", sentence(line)),
      bars(row.proba, row.parent),
      element("h3", "Most surprising features"),
    ];
    const table = element("table");
    table.append(header(["feature", "here", "nearest training rows", "surprise"]));
    for (const f of row.features) {
      const tr = element("tr");
      tr.append(...[f.name, f.value, f.usual, small(f.surprise)].map((cell) => element("td", cell)));
      table.append(tr);
    }
    parts.push(scrolled(table), element("h3", "Nearest training rows"));
    const near = element("table");
    near.append(header(["similarity", "labels", "training rows", ...row.features.map((f) => f.name)]));
    for (const n of row.near) {
      const labels = n.counts.map((v, c) => [v, c]).filter(([v]) => v > 0)
        .map(([v, c]) => `${classes[c]}: ${Number(v.toPrecision(4))}`).join(", ");
      const ids = n.rows.join(", ") + (n.more ? ` and ${n.more} more` : "");
      const tr = element("tr");
      tr.append(...[digits(n.similarity), labels, ids, ...n.values].map((cell) => element("td", cell)));
      near.append(tr);
    }
    parts.push(scrolled(near));
    detail.replaceChildren(...parts);
  }

  function choose(id) {
    if (chosen !== null && tr.has(chosen)) tr.get(chosen).setAttribute("aria-selected", "false");
    chosen = id;
    if (tr.has(id)) tr.get(id).setAttribute("aria-selected", "true");
    show(lines[id]);
  }
  function focus(node) {
    if (!node) return;
    for (const other of body.querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
    node.tabIndex = 0;
    node.focus();
  }

  for (const head of heads) {
    const button = head.querySelector("button");
    button.addEventListener("click", () => {
      sign = key === button.dataset.key ? -sign : 1;
      key = button.dataset.key;
      draw();
    });
  }
  filter.addEventListener("change", draw);
  body.addEventListener("click", (event) => {
    const node = event.target.closest("tr");
    if (!node) return;
    focus(node);
    choose(Number(node.dataset.id));
  });
  body.addEventListener("keydown", (event) => {
    const node = event.target.closest("tr");
    if (!node) return;
    const to = {
      ArrowDown: node.nextElementSibling, ArrowUp: node.previousElementSibling,
      Home: body.firstElementChild, End: body.lastElementChild,
    }[event.key];
    if (to !== undefined) { event.preventDefault(); focus(to); }
    else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(Number(node.dataset.id));
    }
  });

  draw();
  if (lines.length) choose(Number(body.firstElementChild.dataset.id));
})();
