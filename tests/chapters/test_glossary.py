"""The glossary: which words lead to it from which chapter, held word by word, so that a new link is looked at once."""

import re

import nbformat
import pytest
from places import ROOT
from small_book import links
from sphinx.testing.util import SphinxTestApp

from book import conf

# myst-parser asks Sphinx for a resolver's application in the old way.
pytestmark = pytest.mark.filterwarnings("ignore:.*MystReferenceResolver:PendingDeprecationWarning")

CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
GLOSSARY = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
CONF = f"""
extensions = ["myst_nb", "book.extensions.glossary"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
nb_execution_mode = "off"
suppress_warnings = ["myst", "image", "download", "misc"]
glossary_unlinked = {conf.glossary_unlinked}
glossary_unlinked_in = {conf.glossary_unlinked_in}
"""
# Where a word is linked that is used there in another sense, name it in book/conf.py: glossary_unlinked, or ..._in.
LINKED = {
    "00_start_here": """
        CUDA-context caching-allocator driver fused logits optimizer-state owner peak pool segment simulated-GPU slack
        storage temporary view
    """,
    "00b_who_holds_it": """
        autograd driver expandable-segment explorer optimizer-state peak pool reserved-bytes saved-tensor segment
        simulated-GPU slack storage trace view workspace
    """,
    "01_what_backward_needs": """
        adapter allocated-bytes autograd bucket closed-form explorer foreach frozen fused gradient-accumulation
        in-place-operation node optimizer-state peak requested-bytes saved-tensor segment simulated-GPU slot temporary
        trace view workspace
    """,
    "02_mlp_memory": """
        CUDA-context autograd caching-allocator driver explorer fragmentation frozen fused in-place-operation node
        optimizer-state owner peak saved-tensor segment selector simulated-GPU slot storage trace view workspace
    """,
    "03_activations_from_outputs": """
        autocast autograd autonomous-equation causal-mask explorer flash-attention fused in-place-operation peak
        random-state saved-tensor segment simulated-GPU storage transformer-block view workspace
    """,
    "04_every_byte_of_nanogpt": """
        CUDA-context allocated-bytes attention-scores autocast autograd best-fit bucket buffer causal-mask
        checkpointing closed-form driver expandable-segment explorer flash-attention foreach fused gradient-accumulation
        ledger logits optimizer-state owner peak random-state rank requested-bytes reserved-bytes residual-stream
        segment selector slack snapshot trace transformer-block view workspace
    """,
    "05_checkpointing": """
        autocast autograd causal-mask checkpointing closed-form dropout-mask explorer flash-attention frozen fused
        gradient-accumulation logits min-cut-partitioner node optimizer-state peak policy random-state rank
        recomputation region selective-activation-checkpointing simulated-GPU storage transformer-block view
    """,
    "06_many_gpus": """
        all-gather all-reduce autocast autograd bucket buffer causal-mask closed-form data-parallelism
        explorer logits optimizer-state peak rank recomputation reduce-scatter region resharding residual-stream segment
        sequence-parallelism simulated-GPU tensor-parallelism transformer-block view
    """,
    "07_does_not_fit": """
        CUDA-context adapter autocast autograd bucket buffer explorer flash-attention foreach fragmentation frozen fused
        ledger logits offload optimizer-state peak rank residual-stream segment simulated-GPU snapshot storage
    """,
    "08_your_own": """
        autocast autograd driver expandable-segment foreach fused ledger logits optimizer-state owner peak
        requested-bytes saved-tensor segment simulated-GPU slot snapshot transformer-block workspace
    """,
}


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """The chapters' prose and the glossary as a book of their own."""
    folder = tmp_path_factory.mktemp("book")
    (folder / "chapters").mkdir()
    (folder / "conf.py").write_text(CONF, encoding="utf-8")
    (folder / "glossary.md").write_text(GLOSSARY, encoding="utf-8")
    (folder / "index.md").write_text("# Book\n\n```{toctree}\n:glob:\n\nglossary\nchapters/*\n```\n", encoding="utf-8")
    for path in CHAPTERS:
        notebook = nbformat.read(path, as_version=4)
        notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
        nbformat.write(notebook, folder / "chapters" / path.name)
    app = SphinxTestApp("html", srcdir=folder)
    app.builder.read()
    yield app
    app.cleanup()


def terms() -> set[str]:
    """Every word that the glossary explains, other names included."""
    inside = GLOSSARY.split(":sorted:\n", 1)[1].split(":::")[0]
    return set(re.findall(r"^(?! )(.+)$", inside, re.MULTILINE))


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_each_chapter_links_the_words_that_were_looked_at(app, path):
    linked = [address.partition("#term-")[2] for _, address in links(app, f"chapters/{path.stem}", "term")]
    assert sorted(linked) == LINKED[path.stem].split()


def test_what_is_not_linked_is_in_the_glossary():
    chapters = {f"chapters/{path.stem}" for path in CHAPTERS}
    assert set(conf.glossary_unlinked) <= terms()
    for chapter, words in conf.glossary_unlinked_in.items():
        assert chapter in chapters
        assert set(words) <= terms() - set(conf.glossary_unlinked)
