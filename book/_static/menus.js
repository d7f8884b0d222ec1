// The theme listens to the first button of each kind alone, and hides that one: the buttons that one sees pass it on.
// (pydata-sphinx-theme 0.17 to 0.20 with sphinx-book-theme: github.com/pydata/pydata-sphinx-theme/issues/2451.)

for (const kind of ["primary", "secondary"]) {
  const [first, ...others] = document.querySelectorAll(`.${kind}-toggle`);
  for (const button of others) button.addEventListener("click", () => first.click());
}
