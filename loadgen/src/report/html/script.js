// Readouts: the values of a chart's lines at the pointer. The page is complete without them.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const number = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 1 });
  const moment = (x) => {
    if (data.unit !== "s") return number(x) + " writes";
    if (x < 1e-3) return (x * 1e6).toPrecision(3) + " µs";
    if (x < 1) return (x * 1e3).toPrecision(3) + " ms";
    return number(x) + " s";
  };
  // The last index whose value is not above x.
  const lastUpTo = (values, x) => {
    let low = 0;
    let high = values.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (values[middle] <= x) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  const end = data.x[data.x.length - 1];
  if (!(end > 0)) return;
  for (const plot of document.querySelectorAll("[data-chart]")) {
    const columns = plot.dataset.columns.split("|").map((column) => column.split(":")).reverse();
    const cursor = document.createElement("div");
    const readout = document.createElement("div");
    cursor.className = "cursor";
    readout.className = "readout";
    const hide = () => {
      cursor.remove();
      readout.remove();
    };
    const show = (event) => {
      const box = plot.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      const x = share * end;
      const at = lastUpTo(data.x, x);
      const lines = [moment(x) + (data.phases.length ? "  " + data.phases[data.phase[at]] : "")];
      for (const [column, name] of columns) {
        const value = column === "rate"
          ? data.rate.values[lastUpTo(data.rate.x, x)]
          : data.columns[column][at];
        lines.push(name + ": " + number(value));
      }
      readout.textContent = lines.join("\n");
      plot.append(cursor, readout);
      cursor.style.left = share * 100 + "%";
      const right = share < 0.5;
      readout.style.left = right ? "calc(" + share * 100 + "% + 10px)" : "";
      readout.style.right = right ? "" : "calc(" + (1 - share) * 100 + "% + 10px)";
    };
    plot.addEventListener("pointermove", show);
    plot.addEventListener("pointerdown", show);
    plot.addEventListener("pointerleave", hide);
  }
})();
