// Results while one types into the search's window. What they are found in is fetched when it is first opened.

{
  const dialog = document.getElementById("pst-search-dialog");
  const input = dialog?.querySelector("input");
  const root = document.documentElement.dataset.content_root;
  const NEEDED = ["minisearch.js", "search_sections.js", "search_rank.js"];
  const MOST = 8;

  const load = (name) => new Promise((done, failed) => {
    document.head.append(Object.assign(document.createElement("script"), { src: `${root}_static/${name}`, onload: done, onerror: failed }));
  });
  const make = (tag, properties, ...inside) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...inside);
    return element;
  };

  if (input && !document.querySelector(".bd-search-container")) {
    const status = make("p", { className: "search-status", role: "status" });
    const list = make("ul", { className: "search-hits" });
    dialog.append(make("div", { className: "search-found" }, status, list));
    let ready, waiting;

    const item = ({ page, of, anchor, title, words, terms }) => {
      const link = make("a", { href: `${root}${page}.html${anchor && `#${anchor}`}` }, title);
      const where = anchor ? [make("small", {}, of)] : [];
      return make("li", {}, link, ...where, make("p", { className: "context" }, everyByteSummary(words, terms)));
    };

    const show = () => {
      const query = input.value.trim();
      const hits = query.length > 1 ? everyByteSearch(query) : [];
      list.replaceChildren(...hits.slice(0, MOST).map(item));
      const more = hits.length > MOST ? `, the best ${MOST} here; Enter shows all` : "";
      const words = hits.length ? `Found in ${hits.length} places${more}.` : "Found nowhere. Try fewer words.";
      status.textContent = query.length < 2 ? "" : words;
    };

    const begin = () => {
      ready ??= NEEDED.reduce((before, name) => before.then(() => load(name)), Promise.resolve());
      return ready;
    };

    input.addEventListener("focus", begin);
    input.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => begin().then(show), 120);
    });
    dialog.addEventListener("keydown", (event) => {
      const links = [...list.querySelectorAll("a")];
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step || !links.length) return;
      event.preventDefault();
      const next = links.indexOf(document.activeElement) + step;
      (next < 0 ? input : links[Math.min(next, links.length - 1)]).focus();
    });
    dialog.addEventListener("click", (event) => { // a place on this very page
      if (event.target.closest("a")?.pathname === location.pathname) dialog.close();
    });
  }
}
