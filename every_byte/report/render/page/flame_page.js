// The page of a flame graph alone.

import { createFlame } from "./flame.js";

const shown = document.getElementById("data");
if (shown) {
  const { flames, colours } = JSON.parse(shown.textContent);
  document.getElementById("flame-here").replaceChildren(createFlame(flames, colours));
}
