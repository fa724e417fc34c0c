"use strict";
// A click on a column's head sorts its table by it; another click turns the order round.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  const key = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b, undefined, { numeric: true });
  };
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      const rows = Array.from(body.rows);
      rows.sort((a, b) => sign * compare(key(a, column), key(b, column)));
      body.append(...rows);
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    });
  });
}
