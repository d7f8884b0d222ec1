// What is wider than the page scrolls by itself: from the keyboard too, and its right edge fades while more is to come.

{
  const WIDE = ".bd-article pre, .math.equation .formula, .pst-scrollable-table-container, .output.text_html, .cell_output:has(> img), .eb-explorer, .formula-sheet";

  // Sentences are wrapped; what stands in columns, told by its spaces, is not.
  for (const text of document.querySelectorAll(".cell_output pre")) {
    text.classList.toggle("sentences", !/\S {2,}\S|^ /m.test(text.textContent));
  }

  const fade = (box) => box.toggleAttribute("data-goes-on", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);

  const update = () => {
    for (const box of document.querySelectorAll(WIDE)) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
      fade(box);
    }
  };

  document.addEventListener("scroll", (event) => event.target instanceof Element && event.target.matches(WIDE) && fade(event.target), true);
  addEventListener("resize", update);
  document.addEventListener("every-byte:layout", update);
  document.addEventListener("toggle", update, true);
  document.fonts.ready.then(update);
  update();
}
