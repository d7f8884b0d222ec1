// What is wider than the page scrolls by itself: from the keyboard too, and its right edge fades while more is to come.

{
  const WIDE = ".bd-article pre, .math.equation .formula, .pst-scrollable-table-container, .output.text_html, .eb-explorer, .formula-sheet";

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
