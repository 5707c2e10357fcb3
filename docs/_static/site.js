document.addEventListener("DOMContentLoaded", () => {
  // Names for screen readers, where the theme and the gallery give none.
  for (const toggle of document.querySelectorAll("nav summary")) {
    const link = toggle.closest("li")?.querySelector("a");
    toggle.setAttribute("aria-label", `Pages under ${link?.textContent.trim() ?? "this one"}`);
  }
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer p a")) {
    link.setAttribute("aria-label", link.textContent.trim());
  }
  for (const head of document.querySelectorAll("th")) {
    if (!head.textContent.trim()) head.setAttribute("role", "cell"); // a table without headings
  }
  // Numbers such as "5.97 ± 0.21" stay on one line.
  for (const cell of document.querySelectorAll("article td")) {
    if (/^[-+−]?[\d.,]+(e[-+]?\d+)?( ± [\d.,]+(e[-+]?\d+)?)? ?%?$/.test(cell.textContent.trim())) cell.classList.add("number");
  }
});
