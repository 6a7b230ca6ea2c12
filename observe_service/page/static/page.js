"use strict";
// All text comes from the API and is only ever set as text: names of topics and routes are others' words.
const $ = (id) => document.getElementById(id);
let state = null, cells = null, chosenWay = null, chosenMinute = null, heardAt = 0, days = null;

const el = (name, text, kind) => {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};
const svg = (name, attributes, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const count = (value) => value === null || value === undefined ? "" : value.toLocaleString("en");
const ms = (value) => {
  if (value === null || value === undefined) return "–";
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 90000) return `${(value / 1000).toPrecision(3)} s`;
  return `${(value / 60000).toPrecision(3)} min`;
};
const clock = (date) => date.toISOString().slice(11, 16);
// By the observer's clock: the browser's may be another one.
const since = (seconds, now = state.now_ms) => {
  const gone = Math.max(0, now / 1000 - seconds);
  return gone < 120 ? `${Math.round(gone)} s` : gone < 7200 ? `${Math.round(gone / 60)} min` : `${Math.round(gone / 3600)} h`;
};

const MARKS = { up: ["✓", "is-up"], down: ["✗", "is-down"], unknown: ["?", "is-unknown"] };

function newest(way) {
  const found = (state.minutes[way] || []).filter((minute) => minute.state !== "open");
  return found[found.length - 1] || null;
}

// The oldest minute that waits for a node which speaks. One that has just become due is judged in a moment.
function heldUp(way) {
  const found = (state.minutes[way] || []).filter((minute) => minute.state === "open" && minute.reason && minute.is_due !== false);
  return found.length > 1 ? found[0] : null;
}

function showHealth() {
  let worst = "up", text = "";
  const verdicts = state.ways.map((way) => newest(way.name)).filter(Boolean);
  const down = verdicts.filter((verdict) => verdict.up === "down");
  const unknown = verdicts.filter((verdict) => verdict.up === "unknown");
  const held = state.ways.map((way) => heldUp(way.name)).find(Boolean);
  if (held && !down.length) { worst = "unknown"; text = `Not judged since ${held.minute.slice(11, 16)}: ${held.route}: ${held.reason}`; }
  else if (!verdicts.length) { worst = "unknown"; text = "No minute is judged yet: the first verdict comes a few minutes after the first whole minute."; }
  else if (down.length) { worst = "down"; text = `Down at ${down[0].minute.slice(11, 16)}: ${down[0].route}: ${down[0].why}`; }
  else if (unknown.length) { worst = "unknown"; text = `Unknown at ${unknown[0].minute.slice(11, 16)}: ${unknown[0].reason || "a node is silent"}`; }
  else text = `Up: nothing was lost, and events were in time, at ${verdicts[0].minute.slice(11, 16)}.`;
  const [mark, kind] = MARKS[worst];
  const health = $("health");
  health.className = `health ${kind}`;
  health.querySelector(".mark").textContent = mark;
  const said = health.querySelector(".text");
  if (said.textContent !== text) said.textContent = text;
  $("title").textContent = `enrich: ${state.pipeline}`;
  document.title = `${mark} ${state.pipeline}: observer`;
}

function showTrouble(lost) {
  const box = $("trouble"), troubles = Object.values((state && state.observer.trouble) || {});
  let text = "";
  if (lost) text = `The observer has not answered for ${since(lost, Date.now())}. What is shown is from ${clock(new Date(heardAt))} UTC.`;
  else if (troubles.length) text = `Since ${clock(new Date(state.observer.since_s * 1000))} UTC the observer cannot read or write: ${troubles.join("; ")}. What is shown is from before.`;
  box.hidden = !text;
  if (box.textContent !== text) box.textContent = text;
}

function showAlarms() {
  const list = $("alarms");
  list.replaceChildren();
  for (const action of state.actions) list.append(el("li", `Announced until ${clock(new Date(action.until_ms))} UTC: ${action.text}. Alarms are quiet, but for losses.`));
  for (const alarm of state.alarms) list.append(el("li", `${alarm.text} (for ${since(alarm.since_ms / 1000)})`, "is-down"));
  if (!list.children.length) list.append(el("li", "None.", "empty"));
}

function showWays() {
  const select = $("way"), names = state.ways.map((way) => way.name);
  if (!names.includes(chosenWay)) chosenWay = names[0] || null;
  if ([...select.options].map((option) => option.value).join("\n") !== names.join("\n")) {
    select.replaceChildren(...names.map((name) => { const option = el("option", name); option.value = name; return option; }));
  }
  select.value = chosenWay;
}

function durations(verdict) {
  // Of each node what it took, and between nodes the way: both from p95s, which add up to the p95 of the end.
  const parts = [];
  let before = 0;
  for (const hop of verdict.hops) {
    const name = hop.route ? `${hop.node}.${hop.route}` : hop.node;
    const came = hop.lag_in_ms.p95, went = hop.lag_out_ms.p95;
    if (came === null || went === null) continue;
    parts.push({ name: `to ${name}`, value: Math.max(0, came - before), transit: true });
    parts.push({ name, value: Math.max(0, went - came), transit: false });
    before = Math.max(before, went);
  }
  return parts;
}

function showChain() {
  const box = $("chain"), way = state.ways.find((each) => each.name === chosenWay), verdict = chosenWay && newest(chosenWay);
  box.replaceChildren();
  $("chain-of").textContent = verdict ? `Minute ${verdict.minute.slice(11, 16)} UTC. Times are p95s, from the time of the event on.` : "";
  if (!way) { box.append(el("p", "No events come into this pipeline.", "empty")); return; }
  way.hops.forEach((hop, index) => {
    const found = verdict && verdict.hops[index];
    if (index) {
      const arrow = el("div", found && found.lag_in_ms.p95 !== null ? `in after ${ms(found.lag_in_ms.p95)}` : "–", "arrow");
      arrow.title = "p95 from the event's time to its arrival";
      box.append(arrow);
    }
    const node = el("div", null, "node");
    node.append(el("strong", hop.route ? `${hop.node}.${hop.route}` : hop.node), el("span", hop.kind));
    if (found) {
      node.append(el("span", `${count(found.in)} in, ${count(found.out)} out`));
      for (const fate of ["lost", "unknown", "dead", "waiting", "dropped"]) {
        if (found[fate]) node.append(el("span", `${count(found[fate])} ${fate}`, fate === "lost" ? "bad" : ""));
      }
      node.append(el("span", `out after ${ms(found.lag_out_ms.p95)}`));
    }
    box.append(node);
  });
}

const color = (index) => `var(--c${index % 10})`;

function showPie() {
  const box = $("pie");
  box.replaceChildren();
  const minutes = (state.minutes[chosenWay] || []).filter((minute) => minute.state === "settled" && minute.in);
  const sums = new Map();
  for (const minute of minutes) for (const part of durations(minute)) {
    const known = sums.get(part.name) || { ...part, value: 0 };
    known.value += part.value;
    sums.set(part.name, known);
  }
  const parts = [...sums.values()], whole = parts.reduce((sum, part) => sum + part.value, 0);
  if (!whole) { box.append(el("p", "No durations yet.", "empty")); return; }
  const picture = svg("svg", { viewBox: "-1.05 -1.05 2.1 2.1", role: "img", "aria-label": parts.map((part) => `${part.name}: ${ms(part.value / minutes.length)}`).join(", ") });
  let at = -Math.PI / 2;
  parts.forEach((part, index) => {
    const share = part.value / whole, end = at + share * 2 * Math.PI;
    if (share > 0.9999) picture.append(svg("circle", { r: 1, fill: color(index) }));
    else if (share > 0) picture.append(svg("path", { d: `M0 0L${Math.cos(at)} ${Math.sin(at)}A1 1 0 ${share > 0.5 ? 1 : 0} 1 ${Math.cos(end)} ${Math.sin(end)}Z`, fill: color(index) }));
    at = end;
  });
  const key = el("ul", null, "key");
  parts.forEach((part, index) => {
    const item = el("li"), swatch = el("i");
    swatch.style.background = color(index);
    item.append(swatch, `${part.name}: ${ms(part.value / minutes.length)}`);
    key.append(item);
  });
  box.append(picture, key);
}

function showStack() {
  const box = $("stack"), minutes = state.minutes[chosenWay] || [];
  box.replaceChildren();
  const columns = minutes.map((minute) => durations(minute));
  const most = Math.max(state.sla.p95_ms * 1.1, ...columns.map((parts) => parts.reduce((sum, part) => sum + part.value, 0)));
  if (!columns.some((parts) => parts.length)) { box.append(el("p", "No durations yet.", "empty")); return; }
  const names = [...new Set(columns.flat().map((part) => part.name))];
  const width = 620, height = 200, wide = width / Math.max(minutes.length, 1);
  const picture = svg("svg", { viewBox: `0 0 ${width + 60} ${height + 24}`, role: "img", "aria-label": `p95 end to end, ${minutes.length} minutes, at most ${ms(most)}` });
  columns.forEach((parts, index) => {
    let y = height;
    for (const part of parts) {
      const tall = part.value / most * height;
      y -= tall;
      picture.append(svg("rect", { x: 50 + index * wide, y, width: Math.max(1, wide - 1), height: tall, fill: color(names.indexOf(part.name)) }));
    }
    if (index % 10 === 0) picture.append(svg("text", { x: 50 + index * wide, y: height + 16 }, minutes[index].minute.slice(11, 16)));
  });
  const promised = height - state.sla.p95_ms / most * height;
  picture.append(svg("line", { x1: 50, x2: width + 50, y1: promised, y2: promised, stroke: "var(--down)", "stroke-dasharray": "4 3" }));
  picture.append(svg("text", { x: 0, y: promised + 4 }, ms(state.sla.p95_ms)), svg("text", { x: 0, y: 10 }, ms(most)));
  box.append(picture);
}

const UPS = ["none", "up", "down", "unknown"];

function showHeat() {
  const box = $("heat"), today = state.today[chosenWay];
  const nines = $("nines");
  if (!today || today.share === null) nines.textContent = "No minute of today is judged yet.";
  else {
    const down = today.down.length, judged = count(today.up + down);
    const kept = down ? `${count(down)} of ${judged} judged minutes down, ${(today.share * 100).toFixed(3)} % up: a whole day with no more of them has ${today.nines} nines` : `All of ${judged} judged minutes were up`;
    const names = down ? ` Down: ${today.down.slice(-10).map((minute) => minute.slice(11, 16)).join(", ")}${down > 10 ? " …" : ""}.` : "";
    nines.textContent = `${kept}; ${state.sla.nines} nines are promised.${today.unknown ? ` ${count(today.unknown)} unknown.` : ""}${names}`;
  }
  if (!cells) { box.replaceChildren(el("p", "No verdicts today.", "empty")); return; }
  const last = Math.floor((state.now_ms % 86400000) / 60000);
  if (box.children.length !== last + 1 || !box.firstElementChild.dataset.at) {
    box.replaceChildren();
    for (let at = 0; at <= last; at += 1) {
      const button = el("button");
      button.dataset.at = at;
      button.type = "button";
      button.tabIndex = -1;
      box.append(button);
    }
  }
  const focused = chosenMinute === null ? last : chosenMinute;
  for (const button of box.children) {
    const at = Number(button.dataset.at), up = UPS[cells.up[at]];
    const lost = cells.lost[at];
    const label = `${String(Math.floor(at / 60)).padStart(2, "0")}:${String(at % 60).padStart(2, "0")} ${up === "none" ? "no verdict" : up}${lost ? `, ${count(lost)} lost` : ""}`;
    const kind = up + (at === chosenMinute ? " chosen" : "");
    if (button.className !== kind) button.className = kind;
    if (button.title !== label) { button.title = label; button.setAttribute("aria-label", label); }
    button.tabIndex = at === focused ? 0 : -1;
  }
}

async function showMinute(at) {
  chosenMinute = at;
  showHeat();
  const day = new Date(state.now_ms).toISOString().slice(0, 10);
  const text = `${day}T${String(Math.floor(at / 60)).padStart(2, "0")}:${String(at % 60).padStart(2, "0")}Z`;
  const box = $("minute"), found = await ask(`minute?route=${encodeURIComponent(chosenWay)}&minute=${encodeURIComponent(text)}`);
  box.replaceChildren(el("h3", `${text.slice(11, 16)} UTC, ${chosenWay}`));
  box.hidden = false;
  if (!found || found.error) { box.append(el("p", (found && found.error) || "The observer does not answer.", "empty")); return; }
  box.append(el("p", [`${found.state}, ${found.up}`, found.reason, found.why].filter(Boolean).join(": ")));
  const table = el("table"), head = el("tr"), fates = ["in", "out", "lost", "unknown", "dropped", "elsewhere", "dead", "waiting", "duplicates"];
  for (const name of ["node", ...fates, "lag in p95", "lag out p95", "took p95"]) { const cell = el("th", name); cell.scope = "col"; if (name !== "node") cell.className = "number"; head.append(cell); }
  const top = el("thead"); top.append(head); const body = el("tbody");
  for (const hop of found.hops) {
    const row = el("tr");
    row.append(el("td", `${hop.kind} ${hop.route ? `${hop.node}.${hop.route}` : hop.node}`));
    for (const fate of fates) row.append(el("td", count(hop[fate]), "number"));
    for (const lag of [hop.lag_in_ms, hop.lag_out_ms, hop.took_ms]) row.append(el("td", ms(lag.p95), "number"));
    body.append(row);
  }
  table.append(top, body);
  const scroll = el("div", null, "scroll");
  scroll.append(table);
  box.append(scroll);
  if (found.lost_origins.length) {
    box.append(el("h4", `Lost, by name (${count(found.lost)})`));
    const list = el("ul");
    for (const name of found.lost_origins.slice(0, 200)) list.append(el("li", name));
    if (found.more || found.lost_origins.length > 200) list.append(el("li", "and more: enrich observe loss --all"));
    box.append(list);
  }
}

function showLoss() {
  const body = $("loss").tBodies[0];
  body.replaceChildren();
  const minutes = [...(state.minutes[chosenWay] || [])].reverse();
  for (const minute of minutes) {
    const row = el("tr");
    row.append(el("td", minute.minute.slice(11, 16)));
    const kind = minute.state === "settled" ? MARKS[minute.up][1] : minute.state === "unknown" ? "is-unknown" : "is-open";
    row.append(el("td", minute.state === "settled" ? minute.up : minute.state, kind));
    for (const fate of ["in", "out", "lost", "dropped", "dead", "waiting", "late"]) row.append(el("td", count(minute[fate]), `number${fate === "lost" && minute.lost ? " is-down" : ""}`));
    row.append(el("td", ms(minute.p95_ms), "number"));
    const names = minute.lost_origins.join(", ") + (minute.more ? ` and ${count(minute.more)} more` : "");
    row.append(el("td", [minute.reason, minute.why, names && `lost: ${names}`].filter(Boolean).join("; "), "name"));
    body.append(row);
  }
  if (!minutes.length) { const row = el("tr"), cell = el("td", "No minute yet.", "empty"); cell.colSpan = 11; row.append(cell); body.append(row); }
}

function showDays() {
  const body = $("days").tBodies[0];
  body.replaceChildren();
  for (const [way, found] of Object.entries(days || {})) for (const day of [...found].reverse()) {
    const row = el("tr");
    row.append(el("td", day.day), el("td", way, "name"), el("td", count(day.up), "number"), el("td", count(day.down.length), `number${day.down.length ? " is-down" : ""}`), el("td", count(day.unknown), "number"));
    row.append(el("td", day.share === null ? "" : `${(day.share * 100).toFixed(3)} %`, "number"));
    const kept = day.nines !== null && day.nines >= state.sla.nines;
    row.append(el("td", day.nines === null ? "" : day.nines === 9 ? "all" : day.nines, `number ${day.nines === null ? "" : kept ? "is-up" : "is-down"}`));
    body.append(row);
  }
  if (!body.children.length) { const row = el("tr"), cell = el("td", "No day yet.", "empty"); cell.colSpan = 7; row.append(cell); body.append(row); }
}

function showPrograms() {
  const body = $("programs").tBodies[0];
  body.replaceChildren();
  const line = (program, name, text, kind, lag, note) => {
    const row = el("tr");
    row.append(el("td", program), el("td", name), el("td", text, kind), el("td", lag, "number"), el("td", note, "name"));
    body.append(row);
  };
  for (const program of state.programs) {
    if (!program.answers) line(program.name, "", "unknown", "is-unknown", "", program.silent_since_s ? `has not answered for ${since(program.silent_since_s)}: ${program.why}` : "not asked yet");
    for (const route of program.routes || []) {
      const breaker = route.details && route.details.breaker && route.details.breaker !== "closed" ? `breaker ${route.details.breaker}` : "";
      line(program.name, route.name, route.state, route.state === "running" && !breaker ? "is-up" : "is-down", count(route.lag), [breaker, route.last_error].filter(Boolean).join("; "));
    }
    for (const [name, table] of Object.entries(program.tables || {})) {
      const is = !table.ready ? "not ready" : table.is_stale ? "stale" : "ready";
      const behind = table.behind_ms === undefined ? "" : `${(table.behind_ms / 1000).toFixed(1)} s behind its topic`;
      line(program.name, `table ${name}`, is, is === "ready" ? "is-up" : "is-down", "", table.reason || behind);
    }
    if (program.answers && !(program.routes || []).length && !Object.keys(program.tables || {}).length) line(program.name, "", program.phase || "answers", "is-up", "", "");
  }
  if (!body.children.length) line("", "", "no program has a page here", "empty", "", "");
}

function showAll() {
  showHealth(); showTrouble(null); showAlarms(); showWays(); showChain(); showPie(); showStack(); showHeat(); showLoss(); showDays(); showPrograms();
  const headroom = state.rating_per_s !== null ? `Rated at ${count(Math.round(state.rating_per_s))} events/s.` : "Nobody has rated this pipeline: enrich rate run.";
  $("foot").textContent = `Busiest minute: ${count(Math.round(state.peak_per_s))} events/s. ${headroom} As of ${new Date(state.now_ms).toISOString().slice(11, 19)} UTC.`;
  document.body.dataset.shown = String(state.now_ms);
}

async function ask(path) {
  try {
    const answer = await fetch(`api/${path}`);
    return await answer.json();
  } catch (error) { return null; }
}

async function refreshDays() {
  if (chosenWay) {
    const found = await ask(`day?route=${encodeURIComponent(chosenWay)}`);
    cells = found && found.cells ? found.cells : null;
  }
  days = await ask("days");
}

async function take(found) {
  const isFirst = state === null, minuteBefore = state && Math.floor(state.now_ms / 15000);
  state = found;
  heardAt = Date.now();
  showWays();
  if (isFirst || Math.floor(state.now_ms / 15000) !== minuteBefore) await refreshDays();
  showAll();
}

$("way").addEventListener("change", async (event) => { chosenWay = event.target.value; chosenMinute = null; $("minute").hidden = true; await refreshDays(); showAll(); });
$("heat").addEventListener("click", (event) => { if (event.target.dataset.at) showMinute(Number(event.target.dataset.at)); });
$("heat").addEventListener("keydown", (event) => {
  const row = getComputedStyle($("heat")).gridTemplateColumns.split(" ").length; // fewer on a phone
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row }, step = steps[event.key];
  if (step === undefined || !event.target.dataset.at) return;
  event.preventDefault();
  const next = Math.min(Math.max(Number(event.target.dataset.at) + step, 0), $("heat").children.length - 1);
  chosenMinute = next;
  showHeat();
  $("heat").children[next].focus();
});

function watch() {
  const events = new EventSource("api/events");
  events.addEventListener("state", (event) => { take(JSON.parse(event.data)); });
  // A browser asks again by itself if nobody answers, and never after an answer that is an error: of a proxy, or of the
  // observer that has too many pages open.
  events.addEventListener("error", async () => {
    if (events.readyState !== EventSource.CLOSED) return;
    setTimeout(watch, 5000);
    const found = await ask("state");
    if (found && found.minutes) take(found);
  });
}
const openedAt = Date.now();
setInterval(() => {
  if (Date.now() - (heardAt || openedAt) <= 15000) return;
  if (state) showTrouble(heardAt / 1000);
  else $("health").querySelector(".text").textContent = "The observer does not answer. It is asked again.";
}, 1000);
watch();
