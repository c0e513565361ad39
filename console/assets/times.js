// Shows each <time datetime> in the visitor's time zone on hover; the page itself uses UTC.
// Shows copy buttons in browsers that support them, and copies their text.
// Shows the values of a chart at the tapped position.
// Defers the refresh of a part while one of its rows is open.
(function () {
  "use strict";
  var format = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
  var zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  function localize(root) {
    root.querySelectorAll("time[datetime]:not([data-local])").forEach(function (time) {
      var instant = new Date(time.getAttribute("datetime"));
      if (isNaN(instant)) return;
      time.title = format.format(instant) + " (" + zone + ")";
      time.setAttribute("data-local", "");
    });
  }
  function copy(event) {
    var button = event.target.closest("button[data-copy]");
    if (!button) return;
    var source = document.getElementById(button.getAttribute("data-copy"));
    if (!source) return;
    navigator.clipboard.writeText(source.textContent).then(function () {
      if (button.hasAttribute("data-copied")) return;
      var label = button.innerHTML;
      button.setAttribute("data-copied", "");
      button.textContent = "Copied";
      setTimeout(function () { button.innerHTML = label; button.removeAttribute("data-copied"); }, 1500);
    });
  }
  function tap(event) {
    var bucket = event.target.closest(".bucket");
    if (!bucket) return;
    bucket.closest(".chart").querySelector(".value").textContent = bucket.querySelector("title").textContent;
  }
  function offerCopying() {
    if (!navigator.clipboard) return;
    document.querySelectorAll("button[data-copy]").forEach(function (button) { button.hidden = false; });
  }
  // A refresh would close the open row.
  function wait(event) {
    if (event.target.querySelector("details[open]")) event.preventDefault();
  }
  localize(document);
  offerCopying();
  document.addEventListener("click", copy);
  document.addEventListener("click", tap);
  document.addEventListener("htmx:before:request", wait);
  document.addEventListener("htmx:before:response", wait);
  document.addEventListener("htmx:after:swap", function () { localize(document); offerCopying(); });
})();
