// What the reader's browser remembers for the book: strings under names of its own, and nothing where it may not remember.

const everyByteStorage = {
  get(name) {
    try { return localStorage.getItem(`every-byte.${name}`); } catch { return null; }
  },
  getObject(name) {  // what was stored as JSON; an empty object for nothing, and for what is none
    try {
      const found = JSON.parse(this.get(name));
      return found instanceof Object ? found : {};
    } catch { return {}; }
  },
  set(name, value) {
    try {
      if (value === null) localStorage.removeItem(`every-byte.${name}`);
      else localStorage.setItem(`every-byte.${name}`, value);
    } catch { /* private windows and the like: then it lasts as long as the page */ }
  },
};
