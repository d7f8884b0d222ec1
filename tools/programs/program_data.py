"""Small synthetic data for the programs of programs.py: each function makes its files below a working folder.

Nothing is downloaded: texts are drawn words, images are noise, pretrained models are random weights in a folder of
the name by which the program asks for them. The sizes are just large enough for a few steps.
"""

import gzip
import json
import pickle
import shutil
from pathlib import Path

import numpy as np

SEED = 1234
WORDS = tuple(f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "lmnrst")  # 360
GPT2_FILES = {  # as tiktoken names them in its cache: the SHA-1 of the address that it would ask
    "vocab.bpe": "6d1cbeee0f20b3d9449abfede4726ed8212e3aee",
    "encoder.json": "6c7ea1a7e38e3a7f062df639a5b80947f075ffe6",
}
GLUE_METRIC = '''"""Accuracy, in place of GLUE's metric, which `evaluate` would download."""

import datasets
import evaluate


class Glue(evaluate.Metric):
    """The share of predictions that are right."""

    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("int64"), "references": datasets.Value("int64")})
        return evaluate.MetricInfo(description="accuracy", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        return {"accuracy": sum(p == r for p, r in zip(predictions, references)) / len(references)}
'''


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _integers(path: Path, count: int, low: int, high: int, kind: str) -> np.ndarray:
    values = np.random.default_rng(SEED).integers(low, high, count).astype(kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    values.tofile(path)
    return values


def _sentences(count: int, words: int, seed: int = SEED, vocabulary: tuple[str, ...] = WORDS) -> list[str]:
    drawn = np.random.default_rng(seed).integers(0, len(vocabulary), (count, words))
    return [" ".join(vocabulary[i] for i in row) for row in drawn]


def _rows(path: Path, rows: list[dict]) -> None:
    _write(path, "".join(json.dumps(row) + "\n" for row in rows))


def shakespeare_char(folder: Path) -> None:
    """What nanoGPT's data/shakespeare_char/prepare.py makes: tokens of 65 characters."""
    place = folder / "data" / "shakespeare_char"
    for name, count in (("train.bin", 100_000), ("val.bin", 20_000)):
        _integers(place / name, count, 0, 65, "uint16")
    characters = [chr(32 + i) for i in range(65)]
    meta = {"vocab_size": 65, "itos": dict(enumerate(characters)), "stoi": {c: i for i, c in enumerate(characters)}}
    (place / "meta.pkl").write_bytes(pickle.dumps(meta))


def tinystories(folder: Path) -> None:
    """Two shards of tokens, as llama2.c's tinystories.py makes them: the first is for validation."""
    for name in ("data00.bin", "data01.bin"):
        _integers(folder / "data" / "tok512" / name, 100_000, 0, 512, "uint16")


def fineweb(folder: Path) -> None:
    """Shards of GPT-2 tokens: 20 batches of 64 · 1,024 for validation, 40 for training."""
    for name, batches in (("edufineweb_val_000000.npy", 21), ("edufineweb_train_000001.npy", 41)):
        place = folder / "edu_fineweb10B"
        place.mkdir(parents=True, exist_ok=True)
        np.save(place / name, np.random.default_rng(SEED).integers(0, 50_257, batches * 65_536).astype("uint16"))


def hellaswag(folder: Path) -> None:
    """Four questions with four endings each."""
    texts = _sentences(20, 12)
    rows = [{"ctx": texts[5 * i], "label": i, "endings": texts[5 * i + 1 : 5 * i + 5]} for i in range(4)]
    _rows(folder / "hellaswag" / "hellaswag_val.jsonl", rows)


def gpt2_vocabulary(folder: Path) -> None:
    """GPT-2's vocabulary where tiktoken looks first; `prepare.py --gpt2 FOLDER` says where its two files are."""
    (folder / "tiktoken").mkdir(exist_ok=True)
    for name, cached in GPT2_FILES.items():
        shutil.copy(folder / "gpt2" / name, folder / "tiktoken" / cached)


def words(folder: Path) -> None:
    """Three texts, a sentence a line, for pytorch/examples' word_language_model."""
    for name, lines in (("train.txt", 1_500), ("valid.txt", 100), ("test.txt", 100)):
        _write(folder / "words" / name, "\n".join(_sentences(lines, 20, seed=lines)) + "\n")


def wikitext(folder: Path) -> None:
    """200,000 words, where Lightning's WikiText2 looks before it downloads."""
    _write(folder / "data" / "wikitext-2.txt", "\n".join(_sentences(8_000, 25)) + "\n")


def enwik8(folder: Path) -> None:
    """95 million bytes, gzipped: a text of 50,000 bytes, again and again."""
    text = " ".join(_sentences(500, 25)).encode()[:50_000]
    place = folder / "data"
    place.mkdir(parents=True, exist_ok=True)
    with gzip.open(place / "enwik8.gz", "wb", compresslevel=1) as file:
        for _ in range(1_900):
            file.write(text)


def cora(folder: Path) -> None:
    """A citation graph in Cora's format: 2,000 papers of 7 classes, 256 words, 4,000 citations."""
    generator = np.random.default_rng(SEED)
    words_of = generator.integers(0, 2, (2_000, 256))
    names = generator.permutation(np.arange(10_000, 12_000))
    lines = [f"{n} {' '.join(map(str, row))} class{i % 7}" for i, (n, row) in enumerate(zip(names, words_of))]
    _write(folder / "cora" / "cora.content", "\n".join(lines) + "\n")
    _write(folder / "cora" / "cora.cites", "\n".join(f"{a} {b}" for a, b in generator.choice(names, (4_000, 2))) + "\n")


def table(folder: Path) -> None:
    """A table of 2,000 rows: two columns of numbers, two of categories."""
    generator = np.random.default_rng(SEED)
    numbers = generator.normal(size=(2_000, 2)) * (1, 20) + (0, 50)
    kinds, places = generator.choice(["a", "b", "c"], 2_000), generator.choice(list("uvwxyz"), 2_000)
    lines = [f"{x:.4f},{y:.4f},{kind},{place}" for (x, y), kind, place in zip(numbers, kinds, places)]
    _write(folder / "table.csv", "x,y,kind,place\n" + "\n".join(lines) + "\n")


def othello(folder: Path) -> None:
    """Games of 60 moves, one byte each."""
    for split in ("train", "val"):
        _integers(folder / "data" / split / "games.bin", 60 * 16_384, 0, 64, "int8")


def images(folder: Path) -> None:
    """Sixteen pictures of noise, 64 by 64."""
    from PIL import Image

    (folder / "images").mkdir(exist_ok=True)
    for i, pixels in enumerate(np.random.default_rng(SEED).integers(0, 256, (16, 64, 64, 3)).astype("uint8")):
        Image.fromarray(pixels).save(folder / "images" / f"noise_{i}.png")


def blender(folder: Path) -> None:
    """A scene in NeRF's format: 8 views to train on, 1 each for validation and test, 200 by 200 RGBA."""
    import imageio

    place = folder / "data" / "nerf_synthetic" / "lego"
    generator = np.random.default_rng(SEED)
    for split, views in (("train", 8), ("val", 1), ("test", 1)):
        (place / split).mkdir(parents=True, exist_ok=True)
        frames = []
        for i in range(views):
            pixels = generator.integers(0, 256, (200, 200, 4)).astype("uint8")
            imageio.imwrite(place / split / f"r_{i}.png", pixels)
            pose = np.eye(4)
            pose[2, 3] = 4.0
            frames.append({"file_path": f"./{split}/r_{i}", "transform_matrix": pose.tolist()})
        _write(place / f"transforms_{split}.json", json.dumps({"camera_angle_x": 0.7, "frames": frames}))


def modelnet(folder: Path) -> None:
    """ModelNet10's format: 128 shapes to train on, 16 to test, 1,024 points with normals each."""
    place = folder / "data" / "modelnet40_normal_resampled"
    kinds = [f"shape{i}" for i in range(10)]
    _write(place / "modelnet10_shape_names.txt", "\n".join(kinds) + "\n")
    generator = np.random.default_rng(SEED)
    number = 0
    for split, count in (("train", 128), ("test", 16)):
        names = []
        for i in range(count):
            number += 1
            names.append(f"{kinds[i % 10]}_{number:04d}")
            (place / kinds[i % 10]).mkdir(exist_ok=True)
            np.savetxt(place / kinds[i % 10] / f"{names[-1]}.txt", generator.normal(size=(1_024, 6)), "%.4f", ",")
        _write(place / f"modelnet10_{split}.txt", "\n".join(names) + "\n")


def glue(folder: Path) -> None:
    """Pairs of sentences where `load_dataset("nyu-mll/glue", "mrpc")` looks first, and the metric by GLUE's name."""
    place = folder / "nyu-mll" / "glue"
    for split, count in (("train", 320), ("validation", 64)):
        lengths = np.random.default_rng(count).integers(5, 40, (count, 2))
        pairs = [[_sentences(1, n, seed=1_000 * i + n)[0] for n in row] for i, row in enumerate(lengths.tolist())]
        rows = [{"sentence1": a, "sentence2": b, "label": i % 2, "idx": i} for i, (a, b) in enumerate(pairs)]
        _rows(place / "mrpc" / f"{split}.jsonl", rows)
    files = "".join(f"  - split: {s}\n    path: mrpc/{s}.jsonl\n" for s in ("train", "validation"))
    _write(place / "README.md", f"---\nconfigs:\n- config_name: mrpc\n  data_files:\n{files}---\n")
    _write(folder / "glue" / "glue.py", GLUE_METRIC)


def wikitext_rows(folder: Path) -> None:
    """30,000 words where `load_dataset("wikitext", "wikitext-2-v1")` looks first."""
    _rows(folder / "wikitext" / "train.jsonl", [{"text": text} for text in _sentences(1_200, 25)])
    config = "- config_name: wikitext-2-v1\n  data_files:\n  - split: train\n    path: train.jsonl\n"
    _write(folder / "wikitext" / "README.md", f"---\nconfigs:\n{config}---\n")


def _save_tokenizer(folder: Path, special: tuple[str, ...], **tokens: str) -> None:
    """A tokenizer of WORDS, as `from_pretrained` reads it."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate((*special, *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=tokens["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=256, **tokens).save_pretrained(folder)


def bert(folder: Path) -> None:
    """A BERT of 4 layers and width 256 in the folder `bert-base-cased`."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(SEED)
    shape = dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1_024, vocab_size=8_192)
    model = BertForSequenceClassification(BertConfig(**shape))
    special = dict(unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
    model.save_pretrained(folder / "bert-base-cased")
    _save_tokenizer(folder / "bert-base-cased", tuple(special.values()), **special)


def llama(folder: Path) -> None:
    """A Llama of 4 layers and width 256 in the folder `model`."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(SEED)
    shape = dict(hidden_size=256, intermediate_size=688, num_hidden_layers=4, vocab_size=8_192)
    heads = dict(num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=512)
    special = dict(unk_token="<unk>", bos_token="<s>", eos_token="</s>")
    LlamaForCausalLM(LlamaConfig(**shape, **heads)).save_pretrained(folder / "model")
    _save_tokenizer(folder / "model", tuple(special.values()), **special)


def neox_tokenizer(folder: Path) -> None:
    """A tokenizer of 363 words in the folder `EleutherAI/gpt-neox-20b`."""
    special = dict(unk_token="<unk>", eos_token="<|endoftext|>", pad_token="<pad>")
    _save_tokenizer(folder / "EleutherAI" / "gpt-neox-20b", tuple(special.values()), **special)


def instructions(folder: Path) -> None:
    """Alpaca's format: 80 instructions with answers."""
    texts = _sentences(160, 30)
    rows = [{"instruction": a, "input": "", "output": b} for a, b in zip(texts[::2], texts[1::2])]
    _rows(folder / "instructions" / "train.jsonl", rows)


def texts(folder: Path) -> None:
    """64 texts of 300 words, to be cut."""
    _rows(folder / "texts" / "train.jsonl", [{"text": text} for text in _sentences(64, 300)])
