// Draws the samples that the server sends each second. Texts are set as text, never as HTML.
(() => {
  const KEPT_SECONDS = 300;
  // A longer time without a sample is a gap, which interrupts lines.
  const GAP_SECONDS = 3;
  const SIDE = 1000;
  const SVG = "http://www.w3.org/2000/svg";

  // The lines of each chart, the lowest first. Colours are classes of the style.
  const CHARTS = {
    pods: {
      unit: "pods",
      lines: [
        { name: "existing", look: "c1", value: (now) => now.pods.existing },
        { name: "ready", look: "c2", value: (now) => now.pods.ready },
        { name: "desired", look: "c0 dashed", value: (now) => now.pods.desired },
      ],
    },
    requests: {
      unit: "requests/s",
      low: true,
      areRates: true,
      lines: [
        { name: "watch", look: "c0 dashed", verbs: ["WATCH"] },
        { name: "delete", look: "c4", verbs: ["DELETE", "DELETECOLLECTION"] },
        { name: "update, patch", look: "c3", verbs: ["PUT", "PATCH", "APPLY"] },
        { name: "create", look: "c2", verbs: ["POST"] },
        { name: "get, list", look: "c1", verbs: ["GET", "LIST"] },
      ].map((line) => ({
        ...line,
        value: (now, before) => rate(now, before, (of) => sum(line.verbs.map((verb) => of.requests[verb] || 0))),
      })),
    },
    writes: {
      unit: "writes/s",
      low: true,
      areRates: true,
      lines: [
        { name: "binding", look: "c0 dashed", is: (verb, part) => part === "binding" },
        { name: "delete", look: "c4", is: (verb, part) => verb === "delete" },
        { name: "update, patch", look: "c3", is: (verb, part) => !part && ["update", "patch"].includes(verb) },
        { name: "status", look: "c2", is: (verb, part) => part && part !== "binding" },
        { name: "create", look: "c1", is: (verb, part) => !part && ["create", "import"].includes(verb) },
      ].map((line) => ({
        ...line,
        value: (now, before) => rate(now, before, (of) => writes(of, line.is)),
      })),
    },
  };

  // HTTP methods and their Kubernetes verbs.
  const VERBS = { POST: "create", PUT: "update" };

  let samples = [];
  const element = (id) => document.getElementById(id);
  const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);
  const text = (id, value) => { element(id).textContent = value; };
  const make = (parent, name, attributes = {}, content = "") => {
    const isSvg = parent.namespaceURI === SVG || name === "svg";
    const made = isSvg ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (content !== "") made.textContent = content;
    parent.append(made);
    return made;
  };

  const count = (number) => number.toLocaleString("en-US");
  const perSecond = (number) => number.toLocaleString("en-US", { maximumFractionDigits: number < 10 ? 1 : 0 });
  const short = (number) => {
    const digits = (value) => Number(value.toPrecision(3)).toString();
    if (number >= 1e6) return digits(number / 1e6) + "M";
    if (number >= 1e3) return digits(number / 1e3) + "k";
    return digits(number);
  };
  const duration = (seconds) => {
    if (seconds < 120) return Math.round(seconds) + " s";
    if (seconds < 7200) return Math.round(seconds / 60) + " min";
    return (seconds / 3600).toFixed(1) + " h";
  };

  // The number of writes so far that `is` accepts: "update pods/status" is the verb "update" and the part
  // "status".
  const writes = (of, is) => sum(Object.entries(of.writes).map(([write, number]) => {
    const [verb, resource] = write.split(" ");
    return is(verb, resource.split("/")[1] || "") ? number : 0;
  }));

  // The rate of a counter from one sample to the next; null for the first.
  const rate = (now, before, counter) =>
    before ? (counter(now) - counter(before)) / (now.uptimeSeconds - before.uptimeSeconds) : null;

  // About five round steps up to the maximum: 1, 2 or 5 times a power of ten.
  const roundStep = (most) => {
    const rough = most / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 5, 10].find((times) => times * power >= rough * 0.999);
  };

  // The permanent parts of a chart, which `draw` fills.
  const setUp = (id) => {
    const chart = CHARTS[id];
    const figure = element(id);
    const legend = make(figure, "ul", { class: "legend" });
    for (const line of [...chart.lines].reverse()) {
      const item = make(legend, "li");
      make(item, "i", { class: "swatch " + line.look });
      item.append(line.name);
    }
    const frame = make(figure, "div", { class: chart.low ? "frame low" : "frame" });
    chart.y = make(frame, "div", { class: "y", "aria-hidden": "true" });
    chart.plot = make(frame, "div", { class: "plot" });
    chart.svg = make(chart.plot, "svg", {
      viewBox: `0 0 ${SIDE} ${SIDE}`, preserveAspectRatio: "none", role: "img",
      "aria-label": figure.querySelector("h3").textContent + " over time",
    });
    chart.x = make(frame, "div", { class: "x", "aria-hidden": "true" });
    const axis = make(frame, "p", { class: "axis" });
    make(axis, "span", {}, chart.unit);
    make(axis, "span", {}, "time");
    chart.cursor = make(chart.plot, "div", { class: "cursor", hidden: "" });
    chart.readout = make(chart.plot, "div", { class: "readout", hidden: "" });
    const point = (event) => {
      const box = chart.plot.getBoundingClientRect();
      chart.pointer = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      read(chart);
    };
    chart.plot.addEventListener("pointermove", point);
    chart.plot.addEventListener("pointerdown", point);
    chart.plot.addEventListener("pointerleave", () => { chart.pointer = null; read(chart); });
  };

  // The visible time span: one, two or five minutes.
  const span = () => {
    const age = samples[samples.length - 1].uptimeSeconds - samples[0].uptimeSeconds;
    return [60, 120, KEPT_SECONDS].find((seconds) => age <= seconds) || KEPT_SECONDS;
  };
  const isGap = (at) => at === 0 || samples[at].uptimeSeconds - samples[at - 1].uptimeSeconds > GAP_SECONDS;
  const valueAt = (line, at) => line.value(samples[at], isGap(at) ? null : samples[at - 1]);

  const draw = (chart) => {
    const last = samples[samples.length - 1].uptimeSeconds;
    const seconds = span();
    const values = chart.lines.map((line) => samples.map((_, at) => valueAt(line, at)));
    const most = Math.max(...values.flat());
    const step = Math.max(1, roundStep(most || 1));
    const top = Math.max(1, Math.ceil(most / step - 1e-9)) * step;
    const x = (sample) => (SIDE * (1 - (last - sample.uptimeSeconds) / seconds)).toFixed(1);
    const y = (value) => (SIDE * (1 - value / top)).toFixed(1);

    chart.y.replaceChildren();
    chart.svg.replaceChildren();
    for (let tick = 0; tick <= top + step / 2; tick += step) {
      const at = y(tick);
      make(chart.y, "span", { style: `bottom:${100 - at / 10}%` }, short(tick));
      make(chart.svg, "line", { class: "grid", x1: 0, x2: SIDE, y1: at, y2: at });
    }
    chart.x.replaceChildren();
    for (let ago = seconds; ago >= 0; ago -= seconds / 4) {
      const label = ago === 0 ? "now" : ago % 60 ? `−${ago} s` : `−${ago / 60} min`;
      make(chart.x, "span", { style: `left:${100 * (1 - ago / seconds)}%` }, label);
    }
    chart.lines.forEach((line, number) => {
      let path = "", area = "", begin = 0, isOpen = false;
      values[number].forEach((value, at) => {
        if (isGap(at) || value === null) isOpen = false;
        if (value === null) return;
        // A rate covers the time since the previous sample; other values hold until the next sample.
        const next = at + 1 < samples.length && !isGap(at + 1) ? at + 1 : at;
        const [from, to] = chart.areRates ? [at - 1, at] : [at, next];
        if (!isOpen && path !== "") area += `V${SIDE}H${begin}Z`;
        if (!isOpen) begin = x(samples[from]);
        const step = (isOpen ? `V${y(value)}` : `M${begin} ${y(value)}`) + `H${x(samples[to])}`;
        isOpen = true;
        path += step;
        area += step;
      });
      if (line.look === "c1" && path !== "") {
        make(chart.svg, "path", { class: "area c1", d: `${area}V${SIDE}H${begin}Z` });
      }
      make(chart.svg, "path", { class: "line " + line.look, d: path });
    });
    read(chart);
  };

  // The values at the pointer.
  const read = (chart) => {
    const isShown = chart.pointer != null && samples.length > 0;
    chart.cursor.hidden = chart.readout.hidden = !isShown;
    if (!isShown) return;
    const last = samples[samples.length - 1].uptimeSeconds;
    const wanted = last - (1 - chart.pointer) * span();
    const later = samples.findIndex((sample) => sample.uptimeSeconds > wanted);
    const before = (later < 0 ? samples.length : later) - 1;
    // Like the lines: a rate covers the time before its sample, other values the time after it.
    const at = Math.min(samples.length - 1, Math.max(0, chart.areRates ? before + 1 : before));
    const lines = [...chart.lines].reverse().map((line) => {
      const value = valueAt(line, at);
      return `${line.name}: ${value === null ? "–" : perSecond(value)}`;
    });
    chart.readout.textContent = [samples[at].now, ...lines].join("\n");
    const share = 100 * chart.pointer;
    chart.cursor.style.left = share + "%";
    chart.readout.style.left = share < 50 ? `calc(${share}% + 10px)` : "";
    chart.readout.style.right = share < 50 ? "" : `calc(${100 - share}% + 10px)`;
  };

  const fill = (id, rows) => {
    const body = element(id);
    body.replaceChildren();
    for (const [name, ...cells] of rows) {
      const row = make(body, "tr");
      make(row, "th", { scope: "row" }, name);
      for (const cell of cells) make(row, "td", {}, cell);
    }
    const none = element(id + "-none");
    if (none) {
      none.hidden = rows.length > 0;
      body.parentElement.hidden = rows.length === 0;
    }
  };

  const show = () => {
    const now = samples[samples.length - 1];
    const before = samples.length > 1 && !isGap(samples.length - 1) ? samples[samples.length - 2] : null;
    const speed = (counter) => {
      const found = rate(now, before, counter);
      return found === null ? "–" : perSecond(found);
    };
    const all = (of) => sum(Object.values(of.requests));
    const events = (of) => sum(of.watches.map((watch) => watch.events));
    const { desired, existing, ready } = now.pods;
    text("clock", "Cluster time " + now.now + (now.virtual ? ", which stands still until a client advances it" : "") +
      ". Resource version " + count(now.resourceVersion) + ".");
    text("desired", count(desired));
    text("existing", count(existing));
    text("difference", existing === desired ? "as desired" :
      count(Math.abs(existing - desired)) + (existing > desired ? " more than desired" : " fewer than desired"));
    text("ready", count(ready));
    text("share", desired > 0 ? Math.floor(100 * ready / desired) + " % of desired" : "none desired");
    text("nodes", count(now.nodes.ready));
    text("of-nodes", "of " + count(now.nodes.existing));
    text("requests-now", speed(all));
    text("requests-all", count(all(now)) + " since start");
    text("watches-now", count(sum(now.watches.map((watch) => watch.open))));
    text("events-now", speed(events) + " events/s");

    for (const id of Object.keys(CHARTS)) draw(CHARTS[id]);

    fill("behind", now.behind.map((one) => [
      (one.kind === "ReplicaSet" ? "" : one.kind + " ") + one.namespace + "/" + one.name,
      count(one.desired), count(one.statusReplicas), count(one.statusReadyReplicas), duration(one.forSeconds),
    ]).concat(now.behindTotal > now.behind.length
      ? [[`and ${count(now.behindTotal - now.behind.length)} more`, "", "", "", ""]] : []));
    fill("verbs", Object.entries(now.requests).map(([verb, number]) =>
      [VERBS[verb] || verb.toLowerCase(), speed((of) => of.requests[verb] || 0), count(number)]));
    fill("watches", now.watches.map((watch) => {
      const sent = (of) => sum(of.watches.filter((one) => one.resource === watch.resource).map((one) => one.events));
      return [watch.resource, count(watch.open), speed(sent)];
    }));
    fill("objects", Object.entries(now.objects).map(([resource, number]) => [resource, count(number)]));
  };

  let source = null;
  let heardAt = performance.now();
  const state = (name, look) => {
    text("state", name);
    element("state").className = "verdict " + look;
  };
  const lost = () => {
    state("connection lost", "bad");
    const last = samples.length ? ` The page shows the state at ${samples[samples.length - 1].now}.` : "";
    element("lost").hidden = false;
    element("lost").firstElementChild.textContent =
      "The server does not respond. The page resumes when the server is back." + last;
  };
  const hear = (event) => {
    const sample = JSON.parse(event.data);
    heardAt = performance.now();
    const known = samples[samples.length - 1];
    // A different server, or the same sample again.
    if (known && sample.uptimeSeconds < known.uptimeSeconds) samples = [];
    if (known && sample.uptimeSeconds === known.uptimeSeconds) samples.pop();
    samples.push(sample);
    while (sample.uptimeSeconds - samples[0].uptimeSeconds > KEPT_SECONDS) samples.shift();
    state("live", "good");
    element("lost").hidden = true;
    show();
  };
  const open = () => {
    if (source) source.close();
    source = new EventSource("/podstorm/live");
    source.onmessage = hear;
    source.onerror = lost;
    heardAt = performance.now();
  };
  // Browsers reconnect after a lost connection, but not after an answer that is not a stream, nor if a
  // connection has died silently.
  setInterval(() => {
    const silent = performance.now() - heardAt;
    if (silent > 5000) lost();
    if (silent > 10000 || source.readyState === EventSource.CLOSED && silent > 2000) open();
  }, 1000);

  for (const id of Object.keys(CHARTS)) setUp(id);
  open();
})();
