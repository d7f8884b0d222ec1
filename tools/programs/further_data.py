"""Small synthetic data for the programs of further.py, made as program_data.py makes its own."""

import json
from pathlib import Path

import numpy as np
from program_data import SEED, WORDS, _rows, _save_tokenizer, _sentences, _write, bert, cora
from wider_data import digits

METRIC = '''"""A number in place of a metric that `evaluate` would download."""

import datasets
import evaluate


class Constant(evaluate.Metric):
    """Always zero."""

    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("int64"), "references": datasets.Value("int64")})
        return evaluate.MetricInfo(description="zero", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        return {"accuracy": 0.0}
'''
SHAPE = dict(d_model=256, vocab_size=8_192)


def metrics(folder: Path) -> None:
    """Each metric's name as a folder with a script, and the place where nltk looks for its sentences."""
    for name in ("accuracy", "rouge", "sacrebleu", "seqeval", "squad"):
        _write(folder / name / f"{name}.py", METRIC)
    (folder / "nltk_data" / "tokenizers" / "punkt").mkdir(parents=True, exist_ok=True)


def lines(folder: Path) -> None:
    """A text to train on and one to validate, a sentence a line."""
    for name, count in (("train.txt", 1_500), ("valid.txt", 100)):
        _write(folder / name, "\n".join(_sentences(count, 20, seed=count)) + "\n")


def names(folder: Path) -> None:
    """2,000 names, one a line."""
    _write(folder / "names.txt", "\n".join("".join(name.split()) for name in _sentences(2_000, 2)) + "\n")


def cora_beside(folder: Path) -> None:
    """program_data's Cora in `data` beside the working folder."""
    cora(folder.parent / "data")


def gpt2(folder: Path) -> None:
    """A GPT-2 of 4 layers and width 256 in the folder `gpt2`."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(SEED)
    shape = dict(n_embd=256, n_layer=4, n_head=4, vocab_size=8_192)
    GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=1, eos_token_id=1)).save_pretrained(folder / "gpt2")
    special = dict(unk_token="<unk>", eos_token="<|endoftext|>")
    _save_tokenizer(folder / "gpt2", tuple(special.values()), **special)


def bert_body(folder: Path) -> None:
    """program_data's BERT without a head, in the folder `bert-base-cased`."""
    import torch
    from transformers import BertConfig, BertModel

    bert(folder)
    torch.manual_seed(SEED)
    shape = dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1_024, vocab_size=8_192)
    BertModel(BertConfig(**shape)).save_pretrained(folder / "bert-base-cased")


def t5(folder: Path) -> None:
    """A T5 of 2 and 2 layers and width 256 in the folder `t5`."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(SEED)
    config = T5Config(**SHAPE, d_ff=1_024, num_layers=2, num_heads=4, decoder_start_token_id=0)
    T5ForConditionalGeneration(config).save_pretrained(folder / "t5")
    special = dict(pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    _save_tokenizer(folder / "t5", tuple(special.values()), **special)


def bart(folder: Path) -> None:
    """A BART of 2 and 2 layers and width 256 in the folder `bart`."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    torch.manual_seed(SEED)
    layers = dict(encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4)
    config = BartConfig(**SHAPE, **layers, encoder_ffn_dim=1_024, decoder_ffn_dim=1_024)
    BartForConditionalGeneration(config).save_pretrained(folder / "bart")
    special = dict(bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    _save_tokenizer(folder / "bart", tuple(special.values()), **special)


def vit(folder: Path) -> None:
    """A vision transformer of 4 layers and width 192 for pictures of 64 by 64 in the folder `vit`."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    torch.manual_seed(SEED)
    shape = dict(hidden_size=192, num_hidden_layers=4, num_attention_heads=4, intermediate_size=768)
    config = ViTConfig(**shape, image_size=64, num_labels=4)
    ViTForImageClassification(config).save_pretrained(folder / "vit")
    ViTImageProcessor(size={"height": 64, "width": 64}).save_pretrained(folder / "vit")


def pairs(folder: Path) -> None:
    """Pairs of sentences, alike or not."""
    for split, count in (("train", 320), ("validation", 64)):
        texts = _sentences(2 * count, 15, seed=count)
        rows = [{"sentence1": texts[2 * i], "sentence2": texts[2 * i + 1], "label": i % 2} for i in range(count)]
        _rows(folder / "pairs" / f"{split}.json", rows)


def stsb(folder: Path) -> None:
    """Pairs of sentences with a score where `load_dataset("sentence-transformers/stsb")` looks first."""
    for split, count in (("train", 320), ("validation", 32), ("test", 32)):
        texts = _sentences(2 * count, 15, seed=count)
        rows = [{"sentence1": texts[2 * i], "sentence2": texts[2 * i + 1], "score": i % 5 / 4} for i in range(count)]
        _rows(folder / "sentence-transformers" / "stsb" / f"{split}.jsonl", rows)


def tagged(folder: Path) -> None:
    """Sentences with one of three tags for each word."""
    texts = [text.split() for text in _sentences(160, 15)]
    rows = [{"tokens": words, "ner_tags": [("O", "B-A", "I-A")[i % 3] for i in range(len(words))]} for words in texts]
    _rows(folder / "tagged" / "train.json", rows)


def questions(folder: Path) -> None:
    """Questions whose answer is a word of a text, in SQuAD's format."""
    rows = []
    for i, (context, question) in enumerate(zip(_sentences(160, 60), _sentences(160, 8, seed=1))):
        answer = context.split()[i % 60]
        answers = {"text": [answer], "answer_start": [context.index(answer)]}
        rows.append({"id": str(i), "title": "", "context": context, "question": question, "answers": answers})
    _write(folder / "questions" / "train.json", json.dumps({"data": rows}))


def endings(folder: Path) -> None:
    """A sentence, the beginning of another, and four endings of it, in SWAG's format."""
    texts = _sentences(960, 8)
    heads = ("sent1", "sent2", "ending0", "ending1", "ending2", "ending3")
    rows = [dict(zip(heads, texts[6 * i : 6 * i + 6])) | {"label": i % 4} for i in range(160)]
    _rows(folder / "endings" / "train.json", rows)


def summaries(folder: Path) -> None:
    """Texts with a shorter one each."""
    rows = [{"text": a, "summary": b} for a, b in zip(_sentences(160, 100), _sentences(160, 12, seed=1))]
    _rows(folder / "summaries" / "train.json", rows)


def translations(folder: Path) -> None:
    """Sentences in two languages of the same words."""
    rows = [{"translation": {"en": a, "de": b}} for a, b in zip(_sentences(160, 20), _sentences(160, 22, seed=1))]
    _rows(folder / "translations" / "train.json", rows)


def _pictures(place: Path, count: int, size: tuple[int, int], ends: str = ".png", seed: int = SEED) -> list[str]:
    """Pictures of noise; returns their names."""
    from PIL import Image

    place.mkdir(parents=True, exist_ok=True)
    found = []
    for i, pixels in enumerate(np.random.default_rng(seed).integers(0, 256, (count, *size, 3)).astype("uint8")):
        found.append(f"{i}{ends}")
        Image.fromarray(pixels).save(place / found[-1])
    return found


def pictures(folder: Path) -> None:
    """Pictures of noise of four kinds: 16 each to train on, 4 each to validate, 64 by 64."""
    for split, count in (("train", 16), ("val", 4)):
        for kind in range(4):
            _pictures(folder / "pictures" / split / f"kind{kind}", count, (64, 64), seed=kind)


def captions(folder: Path) -> None:
    """32 pictures of noise, 64 by 64, each with a sentence."""
    files = _pictures(folder / "captions", 32, (64, 64))
    rows = [{"file_name": file, "text": text} for file, text in zip(files, _sentences(32, 8))]
    _rows(folder / "captions" / "metadata.jsonl", rows)


def two_kinds(folder: Path) -> None:
    """Pictures of two kinds in PyTorch-GAN's place: 16 each to train on, 8 each to test, 64 by 64."""
    for split, count in (("train", 16), ("test", 8)):
        for seed, kind in enumerate("AB"):
            place = folder.parent.parent / "data" / "monet2photo" / split / kind
            _pictures(place, count, (64, 64), ".jpg", seed)


def masks(folder: Path) -> None:
    """20 pictures of noise, 128 by 128, and for each a mask of zeros and ones."""
    from PIL import Image

    for name in _pictures(folder / "data" / "imgs", 20, (128, 128)):
        mask = np.zeros((128, 128), dtype="uint8")
        mask[32:96, 32:96] = 1
        place = folder / "data" / "masks" / name.replace(".png", "_mask.png")
        place.parent.mkdir(exist_ok=True)
        Image.fromarray(mask).save(place)


def mnist_above(folder: Path) -> None:
    """MNIST's files in `data` and `data/mnist` two folders above."""
    for place in (folder.parent.parent / "data", folder.parent.parent / "data" / "mnist"):
        digits(place, 1_024, 256)


def mnist_here(folder: Path) -> None:
    """MNIST's files in `data`."""
    digits(folder / "data", 1_024, 256)


def mnist_large(folder: Path) -> None:
    """MNIST's files in their true number, where Lightning's examples look: they split the 60,000."""
    for place in (folder / "Datasets", folder / "data"):
        digits(place, 60_000, 10_000)


def autoencoder(folder: Path, name: str = "stabilityai/sd-vae-ft-ema") -> None:
    """Stable Diffusion's autoencoder with few channels, where DiT looks."""
    import torch
    from diffusers import AutoencoderKL

    torch.manual_seed(SEED)
    down, up = ("DownEncoderBlock2D",) * 4, ("UpDecoderBlock2D",) * 4
    channels = (32, 32, 64, 64)
    AutoencoderKL(
        down_block_types=down, up_block_types=up, block_out_channels=channels, latent_channels=4
    ).save_pretrained(folder / name)


def stable_diffusion(folder: Path) -> None:
    """A small Stable Diffusion in the folder `sd`."""
    import torch
    from diffusers import DDPMScheduler, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    autoencoder(folder, "sd/vae")
    torch.manual_seed(SEED)
    UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(64, 128),
        layers_per_block=1,
        cross_attention_dim=64,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    ).save_pretrained(folder / "sd" / "unet")
    DDPMScheduler(num_train_timesteps=1_000).save_pretrained(folder / "sd" / "scheduler")
    letters = [chr(i) for i in range(97, 123)]
    tokens = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    place = folder / "sd" / "tokenizer"
    _write(place / "vocab.json", json.dumps({token: i for i, token in enumerate(tokens)}))
    _write(place / "merges.txt", "#version: 0.2\n")
    _write(place / "tokenizer_config.json", json.dumps({"model_max_length": 77, "tokenizer_class": "CLIPTokenizer"}))
    shape = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
    config = CLIPTextConfig(**shape, vocab_size=len(tokens) + len(WORDS), bos_token_id=0, eos_token_id=1)
    CLIPTextModel(config).save_pretrained(folder / "sd" / "text_encoder")
