"""An explorer's keys in JupyterLab: arrows move its slider and no cell; with Ctrl held down they are JupyterLab's."""

CELL = "from utils.explorers.mlp import mlp_explorer\n\nmlp_explorer()"
DIRTY = ".lm-TabBar-tab.jp-mod-dirty"  # the dot in the tab of a notebook that is not saved
ACTIVE = ".jp-NotebookPanel .jp-Cell.jp-mod-active"


def test_a_slider_saves_with_ctrl_s_and_keeps_its_arrows(explorer):
    page = explorer.page
    n_cells = page.locator(".jp-NotebookPanel .jp-Cell").count()
    for saved in range(2):
        assert page.locator(DIRTY).count() == (saved == 0)  # it was run, and not saved
        explorer.control("b").focus()
        page.keyboard.press("Control+s")
        page.wait_for_selector(DIRTY, state="detached")
        for key, change in (("ArrowRight", 1), ("ArrowLeft", -1), ("ArrowDown", -1), ("ArrowUp", 1)):
            before = explorer.value["b"]
            page.keyboard.press(key)
            explorer.settle()
            assert (explorer.value["b"] - before) * change > 0, key
    assert page.locator(ACTIVE).count() == 1
    page.keyboard.press("a")  # which inserts a cell where JupyterLab hears it
    assert page.locator(".jp-NotebookPanel .jp-Cell").count() == n_cells


def test_in_a_field_ctrl_z_undoes_nothing_of_the_cells_and_ctrl_s_saves(explorer):
    page = explorer.page
    editor = page.locator(".jp-NotebookPanel .jp-Cell .cm-content").first
    editor.click()
    page.keyboard.type("# changed ")
    written = editor.inner_text()
    assert "# changed " in written
    field = explorer.root.locator('[data-exact="d"]')
    field.click()
    page.keyboard.type("7")
    page.keyboard.press("Control+z")  # JupyterLab lets no field undo; but it must not undo in the cell instead
    assert editor.inner_text() == written
    page.keyboard.press("Control+s")
    page.wait_for_selector(DIRTY, state="detached")
