// Sphinx fetches each page that its search finds, for a summary. A page opened as a file may fetch nothing.

DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = location.protocol !== "file:";
