"""Fifty-three more public programs, as wider.py has its fifty: fine-tuning, image models, GANs and tutorials."""

from programs import EXAMPLES, OFFLINE, PROGRAMS, Program
from wider import ALPACA, GUANACO, TRL, _accelerate, _peft, _x_transformers

# huggingface/transformers is too large to be cloned with the others; this fork has its examples of 5.10.0.dev0.
TRANSFORMERS = ("macorisd/transformers-qwen3", "4a42c1b083066a4ae212edd4bd8d28ff713c0088")
DIFFUSERS = ("huggingface/diffusers", "58eb52c0803ea9af3abec60841c2a093bdf1f951")
TIMM = ("huggingface/pytorch-image-models", "aa4b5850c1543fa488abf260f18390eda46cf85d")
GANS = ("eriklindernoren/PyTorch-GAN", "36d3c77e5ff20ebe0aeefd322326a134a279b93e")
TUTORIAL = ("yunjey/pytorch-tutorial", "0500d3df5a2a8080ccfccbc00aca0eacc21818db")
LECTURE = ("karpathy/ng-video-lecture", "52201428ed7b46804849dea0b3ccf0de9df1a5c3")
MAKEMORE = ("karpathy/makemore", "988aa59e4d8fefa526d06f3b453ad116258398d4")
LIGHTNING = PROGRAMS["lightning-transformer"].source
ROOT = {"PYTHONPATH": "{root}"}


def _transformers(name: str, tries: str, folder: str, arguments: str, *data: str) -> Program:
    """One of the scripts of transformers' examples/pytorch."""
    packages = "transformers accelerate datasets evaluate"
    environment = OFFLINE | {"NLTK_DATA": "{root}/nltk_data"}
    return Program(
        f"transformers-{name}",
        tries,
        TRANSFORMERS,
        f"run_{name}.py",
        arguments,
        f"examples/pytorch/{folder}",
        data=(*data, "metrics"),
        packages=packages,
        environment=environment,
    )


def _diffusers(name: str, tries: str, folder: str, arguments: str, *data: str) -> Program:
    packages = "diffusers transformers accelerate datasets peft torchvision tensorboard"
    keep, options = f"examples/{folder}", f"{arguments} --resolution 64 --train_batch_size 4 --output_dir out"
    return Program(
        f"diffusers-{name}",
        tries,
        DIFFUSERS,
        f"train_{name}.py",
        options,
        keep,
        data=data,
        packages=packages,
        environment=OFFLINE,
    )


def _timm(name: str, tries: str, model: str, arguments: str) -> Program:
    options = f"--data-dir pictures --model {model} --num-classes 4 -b 8 -j 1 --epochs 1 --log-interval 1 {arguments}"
    return Program(f"timm-{name}", tries, TIMM, "train.py", options.strip(), data=("pictures",), packages="timm")


def _gan(name: str, tries: str, arguments: str = "", data: str = "mnist_above") -> Program:
    options = f"--n_epochs 1 --n_cpu 0 {arguments}".strip()
    folder = f"implementations/{name}"
    return Program(
        f"gan-{name}", tries, GANS, f"{name}.py", options, folder=folder, data=(data,), packages="torchvision"
    )


def _tutorial(name: str, tries: str, folder: str) -> Program:
    place, data = f"tutorials/{folder}", ("mnist_above",)
    return Program(f"tutorial-{name}", tries, TUTORIAL, "main.py", folder=place, data=data, packages="torchvision")


def _lightning(name: str, tries: str, script: str, arguments: str, data: str) -> Program:
    packages = "lightning torchvision jsonargparse"
    return Program(
        f"lightning-{name}", tries, LIGHTNING, script, arguments, "examples", data=(data,), packages=packages
    )


def _trl_example(name: str, tries: str) -> Program:
    arguments = (
        "--model_name_or_path model --dataset_name preferences --per_device_train_batch_size 2 --bf16 True "
        "--report_to none --output_dir out"
    )
    packages, data = "trl transformers accelerate datasets peft", ("llama", "preferences")
    return Program(
        f"trl-{name}",
        tries,
        TRL,
        f"{name}.py",
        arguments,
        "examples/scripts",
        data=data,
        packages=packages,
        environment=OFFLINE,
    )


TRAINER = "--do_train --output_dir out --max_steps 10 --report_to none --per_device_train_batch_size 4"
TEXTS = "--train_file train.txt --validation_file valid.txt"
LOOP = "--per_device_train_batch_size 4 --output_dir out"
STABLE = "--pretrained_model_name_or_path sd --train_data_dir captions --max_train_steps 10"
MISS = (
    "--base_model_name_or_path model --data_path instructions --dataset_field instruction output "
    "--dataset_split train --output_dir out --per_device_train_batch_size 2 --report_to none"
)

_ALL = (
    _transformers(
        "clm",
        "GPT-2, bf16",
        "language-modeling",
        f"--model_name_or_path gpt2 {TEXTS} --block_size 128 --bf16 True {TRAINER}",
        "gpt2",
        "lines",
    ),
    _transformers(
        "mlm",
        "BERT, fp16",
        "language-modeling",
        f"--model_name_or_path bert-base-cased {TEXTS} --max_seq_length 128 --fp16 True {TRAINER}",
        "bert",
        "lines",
    ),
    _transformers(
        "glue",
        "BERT, pairs of sentences, bf16",
        "text-classification",
        "--model_name_or_path bert-base-cased --train_file pairs/train.json --validation_file pairs/validation.json "
        f"--bf16 True {TRAINER}",
        "bert",
        "pairs",
    ),
    _transformers(
        "glue_no_trainer",
        "BERT, a loop with accelerate",
        "text-classification",
        "--model_name_or_path bert-base-cased --train_file pairs/train.json --validation_file pairs/validation.json "
        f"{LOOP}",
        "bert",
        "pairs",
    ),
    _transformers(
        "ner",
        "BERT, a label for each word",
        "token-classification",
        f"--model_name_or_path bert-base-cased --train_file tagged/train.json {TRAINER}",
        "bert_body",
        "tagged",
    ),
    _transformers(
        "qa",
        "BERT, answers in a text",
        "question-answering",
        f"--model_name_or_path bert-base-cased --train_file questions/train.json --max_seq_length 128 {TRAINER}",
        "bert",
        "questions",
    ),
    _transformers(
        "swag",
        "BERT, one of four endings",
        "multiple-choice",
        f"--model_name_or_path bert-base-cased --train_file endings/train.json {TRAINER}",
        "bert_body",
        "endings",
    ),
    _transformers(
        "summarization",
        "T5",
        "summarization",
        "--model_name_or_path t5 --train_file summaries/train.json --text_column text --summary_column summary "
        f"{TRAINER}",
        "t5",
        "summaries",
    ),
    _transformers(
        "translation",
        "BART, bf16",
        "translation",
        "--model_name_or_path bart --train_file translations/train.json --source_lang en --target_lang de "
        f"--bf16 True {TRAINER}",
        "bart",
        "translations",
    ),
    _transformers(
        "image_classification",
        "a vision transformer",
        "image-classification",
        f"--model_name_or_path vit --train_dir pictures/train --remove_unused_columns False {TRAINER}",
        "vit",
        "pictures",
    ),
    _transformers(
        "mae",
        "a masked autoencoder of pictures, bf16",
        "image-pretraining",
        "--dataset_name imagefolder --train_dir pictures/train/** --image_column_name image "
        f"--remove_unused_columns False --bf16 True --base_learning_rate 1e-3 {TRAINER}",
        "pictures",
    ),
    _diffusers(
        "unconditional",
        "DDPM's U-Net, averaged weights",
        "unconditional_image_generation",
        "--train_data_dir captions --num_epochs 1 --mixed_precision bf16 --use_ema",
        "captions",
    ),
    _diffusers(
        "text_to_image",
        "all of a small Stable Diffusion's U-Net",
        "text_to_image",
        f"{STABLE} --use_ema",
        "stable_diffusion",
        "captions",
    ),
    _diffusers(
        "text_to_image_lora",
        "LoRA on a small Stable Diffusion, fp16",
        "text_to_image",
        f"{STABLE} --mixed_precision fp16 --rank 4",
        "stable_diffusion",
        "captions",
    ),
    Program(
        "dit",
        "a diffusion transformer on latents, DDP on one rank",
        ("facebookresearch/DiT", "ed81ce2229091fd4ecc9a223645f95cf379d582b"),
        "train.py",
        "--data-path pictures/train --model DiT-S/8 --global-batch-size 4 --num-workers 0 --log-every 1",
        data=("pictures", "autoencoder"),
        packages="timm diffusers torchvision",
        environment=OFFLINE,
        ranks=1,
    ),
    Program(
        "unet",
        "segmentation, channels last, mixed precision",
        ("milesial/Pytorch-UNet", "21d7850f2af30a9695bbeea75f3136aa538cfc4a"),
        "train.py",
        "--epochs 1 --batch-size 2 --scale 0.5 --amp",
        data=("masks",),
        packages="wandb matplotlib",
        environment={"WANDB_MODE": "disabled"},
    ),
    _timm("resnet18", "SGD", "resnet18", "--input-size 3 64 64"),
    _timm(
        "vit_tiny",
        "AdamW, mixed precision, mixup, stochastic depth",
        "vit_tiny_patch16_224",
        "--amp --amp-dtype bfloat16 --opt adamw --mixup 0.8 --drop-path 0.1",
    ),
    _timm("efficientnet_b0", "averaged weights", "efficientnet_b0", "--opt rmsproptf --model-ema --input-size 3 64 64"),
    Program(
        "pygcn",
        "graph convolutions by a sparse matrix",
        ("tkipf/pygcn", "1600b5b748b3976413d1e307540ccc62605b4d6d"),
        "train.py",
        "--epochs 4",
        folder="pygcn",
        data=("cora_beside",),
        packages="scipy",
        environment=ROOT,
    ),
    Program(
        "makemore",
        "a small transformer on names",
        MAKEMORE,
        "makemore.py",
        "--device cuda --num-workers 0 --max-steps 10",
        data=("names",),
        packages="tensorboard",
    ),
    Program(
        "makemore-gru",
        "a GRU written out",
        MAKEMORE,
        "makemore.py",
        "--device cuda --num-workers 0 --max-steps 10 --type gru",
        data=("names",),
        packages="tensorboard",
    ),
    Program(
        "lecture-gpt", "GPT on characters, evaluated before the first step", LECTURE, "gpt.py", data=("input_text",)
    ),
    Program("lecture-bigram", "one table", LECTURE, "bigram.py", data=("input_text",)),
    Program(
        "palm",
        "PaLM's decoder, Lion",
        ("lucidrains/PaLM-rlhf-pytorch", "bd0d0f3893ec62f827fa35e759cb38d748829d51"),
        "train.py",
        data=("enwik8",),
        packages="accelerate lion-pytorch einops beartype",
        environment=ROOT,
    ),
    _x_transformers("with_muon", "Muon", packages="adam-atan2-pytorch"),
    _x_transformers("entropy_tokenizer", "entropies cut a text", packages="accelerate fire"),
    _x_transformers("path_star", "paths in a graph", packages="accelerate fire wandb"),
    _accelerate("checkpointing", "saves its state", "--checkpointing_steps epoch --output_dir out"),
    _accelerate("tracking", "losses kept on the card"),
    _accelerate("automatic_gradient_accumulation", "a batch size that fits, accumulated", "--mixed_precision bf16"),
    _accelerate("multi_process_metrics", "gathered predictions", "--mixed_precision fp16"),
    _peft("gralora", "LoRA in blocks", "gralora_finetuning", GUANACO),
    _peft("lily", "shared low ranks", "lily_finetuning", GUANACO),
    _peft("glora", "generalized LoRA", "glora_finetuning", f"{ALPACA} --dtype bfloat16", ("llama", "instructions")),
    Program(
        "peft-miss",
        "matrix shards, TRL's trainer",
        PROGRAMS["peft-lora"].source,
        "miss_finetuning.py",
        MISS,
        "examples/miss_finetuning",
        data=("llama", "instructions"),
        packages="peft trl transformers accelerate datasets",
        environment=OFFLINE,
    ),
    _trl_example("orpo", "odds ratios of preferences"),
    _trl_example("cpo", "contrastive preferences"),
    _lightning(
        "autoencoder",
        "LightningCLI, callbacks",
        "pytorch/basics/autoencoder.py",
        "--trainer.max_epochs=1",
        "mnist_large",
    ),
    _lightning(
        "backbone",
        "LightningCLI",
        "pytorch/basics/backbone_image_classifier.py",
        "--trainer.max_epochs=1 --trainer.precision=bf16-mixed",
        "mnist_large",
    ),
    _lightning(
        "gan", "two optimizers by hand", "pytorch/domain_templates/generative_adversarial_net.py", "", "mnist_large"
    ),
    _lightning("fabric", "Fabric, a language model", "fabric/language_model/train.py", "", "wikitext"),
    _gan("wgan_gp", "gradient penalty"),
    _gan("acgan", "classes as well"),
    _gan("aae", "adversarial autoencoder"),
    _gan("infogan", "codes recovered"),
    _gan(
        "cyclegan", "two generators, two discriminators", "--img_height 64 --img_width 64 --decay_epoch 0", "two_kinds"
    ),
    _tutorial("feedforward", "two linear layers", "01-basics/feedforward_neural_network"),
    _tutorial("convolutional", "two convolutions", "02-intermediate/convolutional_neural_network"),
    _tutorial("gan", "linear generator", "03-advanced/generative_adversarial_network"),
    _tutorial("vae", "variational autoencoder", "03-advanced/variational_autoencoder"),
    Program(
        "forward-forward",
        "layers trained one by one, no backward through the whole",
        EXAMPLES,
        "main.py",
        "--train_size 512 --test_size 128 --epochs 4",
        folder="mnist_forward_forward",
        data=("mnist_here",),
        packages="torchvision",
    ),
    Program(
        "sentence-transformers-sts",
        "pairs of sentences by cosine, fp16",
        ("huggingface/sentence-transformers", "cad211983f36ce458e9b3360f3e11b29fc54cbd8"),
        "training_stsbenchmark.py",
        "bert-base-cased",
        "examples/sentence_transformer/training/sts",
        data=("bert", "stsb"),
        packages="sentence-transformers transformers accelerate datasets",
        environment=OFFLINE,
    ),
)

FURTHER = {program.name: program for program in _ALL}
