// Which sections of the book answer a query, the best first. MiniSearch finds words; titles, whole phrases and the page decide the order.

const everyByteSearch = (() => {
  // What people ask for, and what the book calls it.
  const SYNONYMS = {
    "oom": ["out of memory", "does not fit"],
    "cuda out of memory": ["out of memory", "does not fit"],
    "out of memory": ["does not fit"],
    "vram": ["allocated reserved", "nvidia smi"],
    "video memory": ["allocated reserved", "nvidia smi"],
    "activation checkpointing": ["checkpointing"],
    "gradient checkpointing": ["checkpointing"],
    "activation recomputation": ["checkpointing"],
    "remat": ["checkpointing"],
    "rematerialization": ["checkpointing"],
    "rematerialisation": ["checkpointing"],
    "kv cache": ["keys and values"],
    "key value cache": ["keys and values"],
    "amp": ["autocast"],
    "mixed precision": ["autocast"],
    "ddp": ["data parallel"],
    "fsdp": ["sharded", "fully_shard"],
    "zero": ["sharded"],
    "leak": ["grows"],
    "memory leak": ["grows"],
  };
  // The chapter that is about it.
  const CHAPTERS = {
    "checkpointing": "chapters/05_checkpointing",
    "out of memory": "chapters/07_does_not_fit",
    "does not fit": "chapters/07_does_not_fit",
  };
  const LESS = {
    index: 0.3, verified_operations: 0.4, measured_by_others: 0.5, releases: 0.6, reference: 0.7, teachers: 0.6, bibliography: 0.4,
    quiz: 0.6,
  };
  const MOST_OF_A_PAGE = 3, MOST = 40;
  let index;

  const small = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();
  const own = (title) => small(title).replace(/^(\d+[a-z]?( \d+)? )/, ""); // without its number
  const isIn = (words, text) => ` ${text} `.includes(` ${words} `) || ` ${text}`.includes(` ${words}`);

  function made() {
    const documents = [];
    for (const [page, sections] of Object.entries(everyByteSections)) {
      const of = sections[0]?.[1] ?? "";
      sections.forEach(([anchor, title, words]) => documents.push({ id: documents.length, page, of, anchor, title, words }));
    }
    const search = new MiniSearch({ fields: ["title", "of", "words"], storeFields: ["page", "of", "anchor", "title", "words"] });
    search.addAll(documents);
    return search;
  }

  /** How much more a section counts for a phrase: it is its title, in its title, among its words. */
  function weight(phrase, { title, words, anchor, page }) {
    const named = own(title);
    if (named === phrase) return anchor ? 9 : 12;
    if (named.startsWith(phrase)) return anchor ? 5 : 11;
    if (isIn(phrase, named)) return anchor ? 4 : 6;
    if (!phrase.includes(" ")) return 1;
    return isIn(phrase, small(words)) ? 2 : 1;
  }

  /** Of what has each of the query's words, or begins with the last one; by a synonym too, which counts a little less. */
  function found(phrase, factor) {
    const options = { combineWith: "AND", prefix: (_term, i, terms) => i === terms.length - 1, boost: { title: 5, of: 1.5 } };
    return index.search(phrase, options).map((hit) => {
      const isAboutIt = !hit.anchor && CHAPTERS[phrase] === hit.page;
      const isSection = /^\d+[a-z]?\.\d/.test(hit.title); // not a part of one, or a detour
      const ofPlace = (LESS[hit.page] ?? 1) * (isAboutIt ? 4 : isSection ? 1.3 : 1);
      return { ...hit, score: factor * hit.score * weight(phrase, hit) * ofPlace };
    });
  }

  /** [{page, of, anchor, title, words, terms, score}], of a page no more than a few that are not named so. */
  return (query) => {
    index ??= made();
    const phrase = small(query);
    if (!phrase) return [];
    const best = new Map();
    const isMeant = (known) => known === phrase || (phrase.length > 6 && known.startsWith(phrase)); // while it is typed
    const synonyms = SYNONYMS[Object.keys(SYNONYMS).find(isMeant)] ?? [];
    for (const hit of [...found(phrase, 1), ...synonyms.flatMap((synonym) => found(synonym, 0.8))]) {
      if (!(best.get(hit.id)?.score >= hit.score)) best.set(hit.id, hit);
    }
    const ofPage = new Map();
    return [...best.values()].sort((a, b) => b.score - a.score).filter((hit) => {
      const n = (ofPage.get(hit.page) ?? 0) + 1;
      ofPage.set(hit.page, n);
      return n <= MOST_OF_A_PAGE || isIn(phrase, own(hit.title));
    }).slice(0, MOST);
  };
})();

/** Some words of a section around the first that was asked for. */
function everyByteSummary(words, terms) {
  const text = words.toLowerCase();
  const at = Math.max(0, Math.min(...terms.map((term) => text.indexOf(term)).filter((place) => place >= 0), text.length) - 90);
  const start = at ? words.indexOf(" ", at) + 1 : 0;
  const end = words.indexOf(" ", start + 230);
  return `${start ? "… " : ""}${words.slice(start, end < 0 ? undefined : end)}${end < 0 ? "" : " …"}`;
}
