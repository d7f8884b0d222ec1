// What the search shows: the sections of the book that were found, each once, with some words of it. Sphinx would name pages, and
// fetch each for its words, which a page that is opened as a file may not.

DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
Documentation.TRANSLATIONS["Search finished, found one page matching the search query."] = [
  "Found in one place.", "Found in ${resultCount} places.",
];

{
  const MOST_OF_A_PAGE = 3; // of those that are found by their words; those that are found by their titles all count
  const wordsAt = new Map(); // by address, for the items that follow
  const sphinx = Search._performSearch;
  Search.htmlToText = (words) => words; // what stands in search_sections.js is no HTML

  /** The sections of a page that have the most of the terms, the first ones; the page itself if none has any. */
  function withMost(sections, terms) {
    const count = ([, title, words]) => terms.filter((term) => `${title} ${words}`.toLowerCase().includes(term)).length;
    const counts = sections.map(count);
    const most = Math.max(...counts);
    return most ? sections.filter((_, i) => counts[i] === most).slice(0, MOST_OF_A_PAGE) : sections.slice(0, 1);
  }

  /** A result of Sphinx as results for sections: [document, title, #anchor, description, score, file, kind]. */
  function places([name, title, hash, description, ...rest], terms) {
    const sections = everyByteSections[name];
    const named = sections.filter(([anchor]) => anchor && hash === `#${anchor}`);
    const found = hash ? named : withMost(sections, terms);
    if (!found.length) return [[name, title, hash, description, ...rest]];
    return found.map(([anchor, heading, words]) => {
      const place = anchor && `#${anchor}`;
      const summary = words && Search.makeSearchSummary(words, terms.some((term) => words.toLowerCase().includes(term)) ? terms : [words]);
      wordsAt.set(`${name}${DOCUMENTATION_OPTIONS.LINK_SUFFIX}${place}`, summary);
      return [name, anchor ? `${sections[0][1]} > ${heading}` : heading, place, description, ...rest];
    });
  }

  Search._performSearch = (query, searchTerms, ...rest) => {
    const terms = [...searchTerms].map((stem) => stem.replace(/i$/, "")); // "memori" of memory
    const all = sphinx(query, searchTerms, ...rest).reverse().flatMap((result) => places(result, terms)); // the best first
    const once = new Map(all.reverse().map((result) => [result[0] + result[2], result])); // of two the better one stays
    return all.filter((result) => once.get(result[0] + result[2]) === result);
  };

  new MutationObserver((changes) => {
    for (const item of changes.flatMap(({ addedNodes }) => [...addedNodes]).filter((node) => node.matches?.("ul.search > li"))) {
      const summary = wordsAt.get(item.querySelector("a").getAttribute("href"));
      if (summary && !item.contains(summary)) item.append(summary);
    }
  }).observe(document.getElementById("search-results"), { childList: true, subtree: true });
}
