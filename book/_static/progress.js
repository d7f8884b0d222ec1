// Marks the chapters that were read to the end, beside their names, and offers to forget them. Nothing leaves the browser.

{
  const chapterOf = (path) => path.match(/\/chapters\/([^/]+)\.html$/)?.[1];
  const known = new Set((everyByteStorage.get("read") ?? "").split(" ").filter(Boolean));

  const mark = (link) => {
    const done = known.has(chapterOf(link.pathname));
    const present = link.querySelector(".read-mark");
    if (done && !present) {
      const sign = document.createElement("span");
      sign.className = "read-mark";
      sign.innerHTML = '<span aria-hidden="true"> ✓</span><span class="visually-hidden">, read</span>';
      link.append(sign);
    } else if (!done) {
      present?.remove();
    }
  };

  const forget = document.createElement("button");
  forget.type = "button";
  forget.className = "forget-read";
  forget.textContent = "Forget what I have read";

  const show = () => {
    document.querySelectorAll(".bd-docs-nav a, .chapter-title a").forEach(mark);
    forget.hidden = known.size === 0;
  };

  const save = () => {
    everyByteStorage.set("read", known.size ? [...known].join(" ") : null);
    show();
  };

  forget.addEventListener("click", () => { known.clear(); save(); });
  document.querySelector(".bd-docs-nav")?.after(forget);
  show();

  const here = chapterOf(location.pathname);
  const end = document.querySelector(".prev-next-footer");
  if (here && end) {
    new IntersectionObserver((entries, observer) => {
      if (!entries.some((entry) => entry.isIntersecting) || window.scrollY === 0) return;
      observer.disconnect();
      known.add(here);
      save();
    }).observe(end);
  }
}
