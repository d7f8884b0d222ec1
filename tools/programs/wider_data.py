"""Small synthetic data for the programs of wider.py, made as program_data.py makes its own."""

import pickle
from pathlib import Path

import numpy as np
from program_data import SEED, _rows, _sentences, _write


def digits(place: Path, n_train: int, n_test: int) -> None:
    """MNIST's four files below a folder: digits of noise."""
    raw = place / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(SEED)
    for split, count in (("train", n_train), ("t10k", n_test)):
        pixels = generator.integers(0, 256, (count, 28, 28), dtype="uint8")
        labels = (np.arange(count) % 10).astype("uint8")
        for name, kind, values in (("images-idx3", 3, pixels), ("labels-idx1", 1, labels)):
            head = np.array([2_048 + kind, *values.shape], dtype=">i4").tobytes()
            (raw / f"{split}-{name}-ubyte").write_bytes(head + values.tobytes())


def mnist_beside(folder: Path) -> None:
    """MNIST's four files beside the working folder: 1,024 digits to train on, 256 to test."""
    digits(folder.parent / "data", 1_024, 256)


def bsds300(folder: Path) -> None:
    """BSDS300's folders: 24 pictures of noise to train on, 10 to test, 321 by 321."""
    from PIL import Image

    generator = np.random.default_rng(SEED)
    for split, count in (("train", 24), ("test", 10)):
        place = folder / "dataset" / "BSDS300" / "images" / split
        place.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            Image.fromarray(generator.integers(0, 256, (321, 321, 3), dtype="uint8")).save(place / f"{i}.jpg")


def input_text(folder: Path) -> None:
    """A text of 200,000 characters, as minGPT's chargpt reads it, with the words from which that generates."""
    _write(folder / "input.txt", "\n".join(["O God, O God!", *_sentences(4_000, 12)]) + "\n")


def planetoid(folder: Path) -> None:
    """Cora in Planetoid's eight files, in each place where a script looks: 2,000 papers, 256 words, 7 classes."""
    from scipy.sparse import csr_matrix

    n, n_test, n_train = 2_000, 1_000, 140
    generator = np.random.default_rng(SEED)
    words = generator.integers(0, 2, (n, 256)).astype("float32")
    kinds = np.eye(7, dtype="int32")[np.arange(n) % 7]
    graph = {i: generator.integers(0, n, 3).tolist() for i in range(n)}
    known = n - n_test
    files = {
        "x": csr_matrix(words[:n_train]),
        "allx": csr_matrix(words[:known]),
        "tx": csr_matrix(words[known:]),
        "y": kinds[:n_train],
        "ally": kinds[:known],
        "ty": kinds[known:],
        "graph": graph,
    }
    for place in ("Planetoid/Cora", "Cora/Cora"):
        raw = folder.parent / "data" / place / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            (raw / f"ind.cora.{name}").write_bytes(pickle.dumps(value))
        _write(raw / "ind.cora.test.index", "".join(f"{i}\n" for i in range(known, n)))


def preferences(folder: Path) -> None:
    """64 prompts with an answer that is chosen and one that is not."""
    texts = _sentences(192, 30)
    rows = [{"prompt": a, "chosen": b, "rejected": c} for a, b, c in zip(texts[::3], texts[1::3], texts[2::3])]
    _rows(folder / "preferences" / "train.jsonl", rows)


def unpaired(folder: Path) -> None:
    """64 prompts with one answer each, every second of them wanted."""
    texts = _sentences(128, 30)
    rows = [
        {"prompt": a, "completion": b, "label": i % 2 == 0} for i, (a, b) in enumerate(zip(texts[::2], texts[1::2]))
    ]
    _rows(folder / "unpaired" / "train.jsonl", rows)


def guanaco(folder: Path) -> None:
    """Texts in two splits: 64 to train on, 8 to test."""
    for split, count in (("train", 64), ("test", 8)):
        _rows(folder / "guanaco" / f"{split}.jsonl", [{"text": text} for text in _sentences(count, 60)])
