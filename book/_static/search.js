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

  /** How often these words, in small letters, stand in a text where a word begins. */
  function times(words, text) {
    const small = text.toLowerCase();
    let n = 0;
    if (!words) return n;
    for (let i = small.indexOf(words); i >= 0; i = small.indexOf(words, i + 1)) if (!/[\p{L}\p{N}]/u.test(small[i - 1] ?? " ")) n += 1;
    return n;
  }

  /** How well a section is what was asked for: all of it as it was asked, else each term; in its title, else below; then how often. */
  function merit([, title, words], terms, query) {
    const found = (asked) => (times(asked, title) ? 2 : times(asked, words) ? 1 : 0);
    const ofTerms = terms.reduce((sum, term) => sum + found(term), 0);
    return found(query) * (2 * terms.length + 1) + ofTerms + Math.min(times(query, words), 99) / 100;
  }

  /** The sections of a page that have the most of the terms, the best ones; the page itself if none has any. */
  function withMost(sections, terms, query) {
    const counts = sections.map(([, title, words]) => terms.filter((term) => times(term, `${title} ${words}`)).length);
    const most = Math.max(...counts);
    if (!most) return sections.slice(0, 1);
    const found = sections.filter((_, i) => counts[i] === most);
    return found.sort((a, b) => merit(b, terms, query) - merit(a, terms, query)).slice(0, MOST_OF_A_PAGE);
  }

  /** A result of Sphinx as results for sections: [document, title, #anchor, description, score, file, kind]. */
  function places([name, title, hash, description, ...rest], terms, query) {
    const sections = everyByteSections[name];
    const named = sections.filter(([anchor]) => anchor && hash === `#${anchor}`);
    const found = hash ? named : withMost(sections, terms, query);
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
    const asked = query.trim().toLowerCase();
    const isNamedSo = ([, title]) => times(asked, title.split(" > ").at(-1)) > 0;
    const found = sphinx(query, searchTerms, ...rest).reverse().flatMap((result) => places(result, terms, asked)); // the best first
    const all = found.sort((a, b) => isNamedSo(b) - isNamedSo(a));
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
