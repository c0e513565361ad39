// Adds new events to the list. Existing rows keep their focus, selection and open details.
(function () {
  "use strict";
  var PAUSE_MS = 3000, MAX_ROWS = 500;
  var tail = document.getElementById("tail");
  var body = tail.querySelector("tbody"), told = tail.querySelector("[role=status]"), button = tail.querySelector("button[data-pause]");
  var isPaused = false;
  function keys() {
    return Array.prototype.slice.call(body.rows, 0, 50).map(function (row) { return row.getAttribute("data-key"); }).join(".");
  }
  function add(html) {
    var rows = Array.prototype.slice.call(new DOMParser().parseFromString(html, "text/html").querySelectorAll("tbody tr"));
    if (rows.length === 0) return;
    body.querySelectorAll("tr.new").forEach(function (row) { row.classList.remove("new"); });
    rows.reverse().forEach(function (row) { row.classList.add("new"); body.insertBefore(document.importNode(row, true), body.firstChild); });
    while (body.rows.length > MAX_ROWS) body.deleteRow(-1);
    told.textContent = rows.length === 1 ? "One new event." : rows.length + " new events.";
    document.dispatchEvent(new Event("htmx:after:swap"));
  }
  function ask() {
    if (isPaused || document.hidden) return Promise.resolve();
    var headers = { "hx-request": "true", "hx-current-url": location.href };
    return fetch(tail.getAttribute("data-tail") + "&known=" + keys(), { headers: headers }).then(function (response) {
      var to = response.headers.get("hx-redirect");
      if (to) location.href = to;
      return response.status === 200 ? response.text().then(function (html) { if (!isPaused) add(html); }) : null;
    });
  }
  function again() { setTimeout(function () { ask().catch(function () {}).then(again); }, PAUSE_MS); }
  button.hidden = false;
  button.addEventListener("click", function () {
    isPaused = !isPaused;
    button.textContent = isPaused ? "Continue" : "Pause";
    told.textContent = isPaused ? "Paused. New events aren\u2019t added." : "Waiting for new events.";
    tail.classList.toggle("paused", isPaused);
  });
  again();
})();
