// The page that searches: Sphinx's shows, everyByteSearch finds. Sphinx would name pages, and fetch each for its words, which a page
// that is opened as a file may not.

DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
Documentation.TRANSLATIONS["Search finished, found one page matching the search query."] = [
  "Found in one place.", "Found in ${resultCount} places.",
];

{
  const wordsAt = new Map(); // by address, for the items that follow

  Search._performSearch = (query) => everyByteSearch(query).map(({ page, of, anchor, title, words, terms, score }) => {
    const place = anchor && `#${anchor}`;
    wordsAt.set(`${page}${DOCUMENTATION_OPTIONS.LINK_SUFFIX}${place}`, everyByteSummary(words, terms));
    return [page, anchor ? `${of} > ${title}` : title, place, null, score, "", "title"];
  }).reverse(); // Sphinx shows the last one first
  Search.setIndex({}); // what waits for one need not

  new MutationObserver((changes) => {
    for (const item of changes.flatMap(({ addedNodes }) => [...addedNodes]).filter((node) => node.matches?.("ul.search > li"))) {
      const summary = wordsAt.get(item.querySelector("a").getAttribute("href"));
      if (!summary || item.querySelector("p.context")) continue;
      const element = document.createElement("p");
      element.className = "context";
      element.textContent = summary;
      item.append(element);
    }
  }).observe(document.getElementById("search-results"), { childList: true, subtree: true });
}
