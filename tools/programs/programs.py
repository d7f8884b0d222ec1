"""The public programs on which `every-byte run` is tried: where each comes from, its command, its data."""

from dataclasses import dataclass, field

OURS = "ours"
NANOGPT = ("karpathy/nanoGPT", "3adf61e154c3fe3fca428ad6bc3818b27a3b8291")
EXAMPLES = ("pytorch/examples", "77f55b912142e11fcfdf5b530231fb9c52f181e8")
COLD = {"TORCHINDUCTOR_CACHE_DIR": "{root}/inductor", "TRITON_CACHE_DIR": "{root}/triton"}
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": "{root}/hf", "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True)
class Program:
    """One program: what it is, how it is laid out in a folder of its own, and how it is run there.

    source:       the repository on GitHub and its commit; OURS for a script of tools/programs/scripts
    keep:         the folder of the repository that becomes the program's folder; "" for all of it
    folder:       the working folder, below the program's folder; `script` is named from there
    data:         what is made below the working folder: names of functions of data.py
    environment:  variables; "{root}" stands for the program's folder
    ranks:        as one of how many it is started; 0 for a process that knows of no others
    values:       where its path through the code depends on values that it computes; "" if nowhere in its first steps
    """

    name: str
    tries: str
    source: tuple[str, str]
    script: str
    arguments: str = ""
    keep: str = ""
    folder: str = "."
    data: tuple[str, ...] = ()
    packages: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    ranks: int = 0
    values: str = ""


def _nanogpt(name: str, tries: str, more: str, **others: object) -> Program:
    arguments = f"config/train_shakespeare_char.py --eval_iters=2 --max_iters=10 {more}"
    data = ("shakespeare_char",)
    return Program(name, tries, NANOGPT, "train.py", arguments, data=data, values="prints the loss", **others)


def _trainer(name: str, tries: str, script: str, arguments: str = "") -> Program:
    packages = "transformers accelerate"
    values = "the loss is logged; in bf16 no step is skipped"
    return Program(name, tries, (OURS, ""), script, arguments, packages=packages, environment=OFFLINE, values=values)


def _example(name: str, tries: str, keep: str, script: str, arguments: str = "", **more: object) -> Program:
    return Program(name, tries, EXAMPLES, script, arguments, keep=keep, **more)


FIXED = (
    _nanogpt("nanogpt", "GPT, bf16 autocast, evaluation before the first step", "--compile=False"),
    _trainer("hf-llama", "Trainer, bf16, Llama's shape", "trainer_llama.py"),
    _trainer("hf-llama-ckpt", "the same, gradient checkpointing", "trainer_llama.py", "--gradient-checkpointing"),
    _trainer("hf-gpt2", "Trainer, bf16, GPT-2's shape", "trainer_gpt2.py"),
    _trainer("hf-gpt2-ckpt", "the same, gradient checkpointing", "trainer_gpt2.py", "--gradient-checkpointing"),
    Program(
        "accelerate-nlp",
        "accelerate's own example: BERT, padded batches of changing length",
        ("huggingface/accelerate", "16cb6eb80dd9aa8b4df1a63ef57863e455d53b83"),
        "nlp_example.py",
        "--mixed_precision bf16",
        keep="examples",
        data=("glue", "bert"),
        packages="accelerate transformers datasets evaluate",
        environment=OFFLINE,
        values="only after its 20 steps, in the evaluation",
    ),
    Program(
        "lightning-transformer",
        "Lightning's own example, sanity check before training, clipping",
        ("Lightning-AI/pytorch-lightning", "7f0c3436cd3f6ad3753125672024fc415cbcb414"),
        "transformer.py",
        keep="examples/pytorch/basics",
        data=("wikitext",),
        packages="lightning",
        values="the progress bar reads the loss",
    ),
    _example("ddp-tutorial", "DDP", "distributed/ddp-tutorial-series", "multigpu_torchrun.py", "2 1", ranks=2),
    _example("fsdp2", "FSDP2, meta device, a utils.py of its own", "distributed/FSDP2", "example.py", ranks=2),
    _example(
        "fsdp2-bf16",
        "FSDP2 in mixed precision, explicit prefetching",
        "distributed/FSDP2",
        "example.py",
        "--mixed-precision --explicit-prefetching",
        ranks=2,
    ),
    _example("tensor-parallel", "DTensor", "distributed/tensor_parallelism", "tensor_parallel_example.py", ranks=2),
    _example("sequence-parallel", "DTensor", "distributed/tensor_parallelism", "sequence_parallel_example.py", ranks=2),
    _example("fsdp-tp", "FSDP2 over tensor parallel", "distributed/tensor_parallelism", "fsdp_tp_example.py", ranks=4),
    Program(
        "peft-lora",
        "LoRA on a Llama in bf16, device_map='auto', Trainer",
        ("huggingface/peft", "5d602fdbff04c33c1c4de55cda9d4ae1d7cb7e40"),
        "olora_finetuning.py",
        "--base_model model --data_path instructions --batch_size 4 --dtype bfloat16 --init_lora_weights gaussian",
        keep="examples/olora_finetuning",
        data=("llama", "instructions"),
        packages="peft transformers accelerate datasets",
        environment=OFFLINE,
    ),
)

CHOSEN = (
    _nanogpt(
        "nanogpt-fp16",
        "fp16 with GradScaler, accumulation",
        "--compile=False --dtype=float16 --gradient_accumulation_steps=2",
    ),
    _nanogpt("nanogpt-compile", "torch.compile", "--compile=True", environment=COLD),
    Program(
        "mingpt-adder",
        "GPT-nano; generates, and compares answers, before the second step",
        ("karpathy/minGPT", "37baab71b9abea1b76ab957409a1cc2fbfba8a26"),
        "projects/adder/adder.py",
        "--trainer.max_iters=10 --trainer.num_workers=0",
        environment={"PYTHONPATH": "{root}"},
        values="which answers are printed, and whether a checkpoint is saved, depends on what it generates",
    ),
    Program(
        "build-nanogpt",
        "GPT-2 124M at its real size: 64 sequences of 1,024 tokens, 8 accumulated",
        ("karpathy/build-nanogpt", "6104ab1b53920f6e2159749676073ff7d815c1fa"),
        "train_gpt2.py",
        data=("fineweb", "hellaswag", "gpt2_vocabulary"),
        packages="tiktoken transformers",
        environment={"TIKTOKEN_CACHE_DIR": "{root}/tiktoken"},
        values="prints losses; the accuracy on HellaSwag",
    ),
    Program(
        "llama2c-fp16",
        "Llama, fp16 with GradScaler, loader that prefetches to the card",
        ("karpathy/llama2.c", "350e04fe35433e6d2941dce5a1f53308f87058eb"),
        "train.py",
        "--vocab_source=custom --vocab_size=512 --compile=False --dtype=float16 --batch_size=32 --eval_iters=2 "
        "--eval_interval=100 --max_iters=10",
        data=("tinystories",),
        packages="sentencepiece requests tqdm",
        values="prints the loss; GradScaler asks whether gradients are finite",
    ),
    _example(
        "word-language-model",
        "LSTM (cuDNN)",
        "word_language_model",
        "main.py",
        "--data words --model LSTM --accel --use-optimizer --epochs 1 --log-interval 1",
        data=("words",),
        values="prints the loss",
    ),
    _example(
        "gat",
        "graph attention on a dense adjacency matrix",
        "gat",
        "main.py",
        "--epochs 4",
        data=("cora",),
        packages="requests",
        values="the number of classes is labels.max().item() + 1, read from the card: a size",
    ),
    Program(
        "guided-diffusion",
        "diffusion U-Net, an autograd Function of its own for checkpoints, DDP on one rank, EMA copies",
        ("openai/guided-diffusion", "22e0df8183507e13a7813f8d38d51b072ca1e67c"),
        "scripts/image_train.py",
        "--data_dir images --image_size 64 --num_channels 64 --num_res_blocks 1 --num_heads 2 --batch_size 4 "
        "--use_checkpoint True --log_interval 1",
        data=("images",),
        ranks=1,
        packages="mpi4py mpich blobfile Pillow",
        environment={"PYTHONPATH": "{root}", "OPENAI_LOGDIR": "log", "MPICH_INTERFACE_HOSTNAME": "localhost"},
        values="logs losses by the timesteps' quartiles",
    ),
    Program(
        "ctgan",
        "GAN on a table; gradient penalty (second derivatives)",
        ("sdv-dev/CTGAN", "f4fcd21d96e291fb1d6b7a14b83236927560b81e"),
        "ctgan/__main__.py",
        "--epochs 1 --discrete kind,place --batch_size 500 table.csv sampled.csv",
        data=("table",),
        packages="rdt pandas",
        environment={"PYTHONPATH": "{root}"},
        values="torch.normal asks whether each deviation is positive and raises if not; gumbel_softmax is drawn again "
        "if it has a NaN",
    ),
    Program(
        "gpt-vae",
        "variational autoencoder of GPTs; generates 1,024 tokens after the first step",
        ("lucidrains/x-transformers", "9252ed7838021ee61e6c5be0930b3a9a88efdf06"),
        "train_gpt_vae.py",
        data=("enwik8",),
        packages="x-transformers",
        environment={"PYTHONPATH": "{root}"},
        values="prints losses and the text that it generates",
    ),
    Program(
        "cleanrl-ppo",
        "reinforcement learning; many small copies between the environment and the card",
        ("vwxyzjn/cleanrl", "fe8d8a03c41a7ef5b523e2e354bd01c363e786bb"),
        "cleanrl/ppo.py",
        "--total-timesteps 2048 --num-steps 64",
        packages="gymnasium tyro tensorboard",
        values="Categorical asks whether its arguments are valid and raises if not; actions come from the card and "
        "move the environment; sizes do not depend on them",
    ),
    Program(
        "nerf",
        "radiance field; 'cuda' as the default tensor type",
        ("yenchenlin/nerf-pytorch", "63a5a630c9abd62b0f21c08703d0ac2ea7d4b9dd"),
        "run_nerf.py",
        "--config configs/lego.txt --i_print 1",
        data=("blender",),
        packages="configargparse imageio opencv-python-headless matplotlib",
        values="prints the loss",
    ),
    Program(
        "pointnet2",
        "point clouds: farthest-point sampling, grouping by radius",
        ("yanx27/Pointnet_Pointnet2_pytorch", "eb64fe0b4c24055559cea26299cb485dcb43d8dd"),
        "train_classification.py",
        "--model pointnet2_cls_ssg --batch_size 16 --num_category 10",
        data=("modelnet",),
        values="group_first[mask] has a size that depends on distances",
    ),
    Program(
        "tcn",
        "dilated 1-D convolutions, weight norm",
        ("locuslab/TCN", "2f8c2b817050206397458dfd1f5a25ce8a32fe65"),
        "add_test.py",
        "--log-interval 1",
        folder="TCN/adding_problem",
        values="prints the loss",
    ),
    Program(
        "othello-mamba",
        "state-space model (Jamba) in plain PyTorch; the parallel scan is an autograd Function",
        ("alxndrTL/othello_mamba", "29cf393c4d11ea93cc1a9bb14057c74a469d1096"),
        "train.py",
        data=("othello",),
        packages="wandb",
        environment={"WANDB_MODE": "disabled"},
        values="after the first step it plays games: legal moves depend on what it generates",
    ),
    Program(
        "trl-sft-liger",
        "TRL's SFT script with Liger's Triton kernels: to be flagged",
        ("huggingface/trl", "f2cd57710ae345ea6428ae95363267fcf38a3dc8"),
        "sft.py",
        "--model_name_or_path model --dataset_name texts --per_device_train_batch_size 2 --max_length 256 "
        "--bf16 True --use_liger_kernel True --report_to none --output_dir out",
        keep="trl/scripts",
        data=("llama", "texts"),
        packages="trl transformers accelerate datasets liger-kernel triton",
        environment=OFFLINE,
        values="logs loss, entropy and token accuracy",
    ),
    _trainer("hf-vit", "Trainer, bf16, a vision transformer", "trainer_vit.py"),
)

# After the first try: othello-mamba asks for mamba_ssm, a CUDA extension; the stubs have no cuDNN that sizes an LSTM.
ADDED = (
    _example(
        "word-transformer",
        "encoder with a causal mask",
        "word_language_model",
        "main.py",
        "--data words --model Transformer --accel --use-optimizer --epochs 1 --log-interval 1",
        data=("words",),
        values="prints the loss",
    ),
    Program(
        "mamba",
        "state-space model in plain PyTorch; its parallel scan is an autograd Function",
        ("alxndrTL/mamba.py", "b70f47e722776dbf87d6d8c5dfd31c4ff784a2d5"),
        "examples/trainMamba.py",
        data=("wikitext_rows", "neox_tokenizer"),
        packages="transformers datasets",
        environment={**OFFLINE, "PYTHONPATH": "{root}"},
        values="prints the loss",
    ),
)

PROGRAMS = {program.name: program for program in FIXED + CHOSEN + ADDED}
