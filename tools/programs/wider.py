"""More public programs, on which only what a report says of its own figures is tried: verdicts.py has their rows."""

from programs import EXAMPLES, OFFLINE, PROGRAMS, Program, _example

CLEANRL = PROGRAMS["cleanrl-ppo"].source
X_TRANSFORMERS = PROGRAMS["gpt-vae"].source
ACCELERATE = PROGRAMS["accelerate-nlp"].source
PEFT = PROGRAMS["peft-lora"].source
TRL = PROGRAMS["trl-sft-liger"].source
GEOMETRIC = ("pyg-team/pytorch_geometric", "5c6461b2305ad068a6d61165b3c55852a11aaa41")


def _whole(name: str, tries: str, folder: str, arguments: str, *data: str) -> Program:
    """An example of pytorch/examples whose data are beside its folder."""
    return Program(name, tries, EXAMPLES, "main.py", arguments, folder=folder, data=data, packages="torchvision")


def _cleanrl(name: str, tries: str, arguments: str) -> Program:
    packages = "gymnasium tyro tensorboard"
    script, root = f"cleanrl/{name}.py", {"PYTHONPATH": "{root}"}
    return Program(f"cleanrl-{name}", tries, CLEANRL, script, arguments, packages=packages, environment=root)


def _x_transformers(name: str, tries: str, arguments: str = "", packages: str = "") -> Program:
    environment = {"PYTHONPATH": "{root}", "WANDB_MODE": "disabled"}
    script, data = f"train_{name}.py", ("enwik8",)
    packages = f"x-transformers {packages}"
    return Program(
        f"x-{name}", tries, X_TRANSFORMERS, script, arguments, data=data, packages=packages, environment=environment
    )


def _accelerate(name: str, tries: str, arguments: str = "") -> Program:
    data, packages = ("glue", "bert"), "accelerate transformers datasets evaluate"
    script, folder = f"{name}.py", "by_feature"
    return Program(
        f"accelerate-{name}", tries, ACCELERATE, script, arguments, "examples", folder, data, packages, OFFLINE
    )


def _peft(name: str, tries: str, folder: str, arguments: str, data: tuple[str, ...] = ("llama", "guanaco")) -> Program:
    packages = "peft transformers accelerate datasets"
    return Program(
        f"peft-{name}",
        tries,
        PEFT,
        f"{name}_finetuning.py",
        f"--base_model model {arguments}",
        f"examples/{folder}",
        data=data,
        packages=packages,
        environment=OFFLINE,
    )


def _trl(name: str, tries: str, data: str, more: str = "") -> Program:
    arguments = (
        f"--model_name_or_path model --dataset_name {data} --per_device_train_batch_size 2 --bf16 True "
        f"--report_to none --output_dir out {more}"
    )
    packages, model = "trl transformers accelerate datasets peft", ("llama", data)
    return Program(
        f"trl-{name}",
        tries,
        TRL,
        f"{name}.py",
        arguments.strip(),
        "trl/scripts",
        ".",
        model,
        packages,
        OFFLINE,
    )


def _geometric(name: str, tries: str, arguments: str = "") -> Program:
    packages = "torch_geometric"
    return Program(
        f"geometric-{name}", tries, GEOMETRIC, f"{name}.py", arguments, "", "examples", ("planetoid",), packages
    )


ALPACA = "--data_path instructions --batch_size 4"
GUANACO = "--data_path guanaco --batch_size 2 --cutoff_len 256"

_ALL = (
    _whole("mnist", "convolutions, Adadelta", "mnist", "--epochs 1 --log-interval 1", "mnist_beside"),
    _whole("vae", "variational autoencoder", "vae", "--epochs 1 --log-interval 1", "mnist_beside"),
    _whole("mnist-rnn", "LSTM over rows", "mnist_rnn", "--accel --epochs 1 --log-interval 1", "mnist_beside"),
    _whole("siamese", "ResNet-18, pairs of images", "siamese_network", "--epochs 1 --log-interval 1", "mnist_beside"),
    _whole("dcgan", "GAN with transposed convolutions", "dcgan", "--dataset fake --accel --workers 0 --niter 1"),
    _whole("imagenet", "ResNet-18, SGD, DataParallel", "imagenet", "--dummy -b 16 -j 0 -p 1 --epochs 1"),
    _whole(
        "super-resolution",
        "pixel shuffle",
        "super_resolution",
        "--upscale_factor 3 --batchSize 4 --nEpochs 1 --accel --threads 0",
        "bsds300",
    ),
    _example("gcn", "graph convolution by a sparse matrix", "gcn", "main.py", "--epochs 4", data=("cora",)),
    _example("regression", "nothing on the GPU", "regression", "main.py"),
    _example("single-gpu", "the first of the DDP tutorials", "distributed/ddp-tutorial-series", "single_gpu.py", "2 1"),
    _cleanrl("dqn", "replay buffer, target network", "--learning-starts 130 --total-timesteps 200"),
    _cleanrl("c51", "distributions over returns", "--learning-starts 130 --total-timesteps 200"),
    _cleanrl("pqn", "Q-learning in batches, RAdam", "--total-timesteps 2048"),
    _cleanrl("ddpg_continuous_action", "actor and critic", "--env-id Pendulum-v1 --learning-starts 260"),
    _cleanrl("td3_continuous_action", "twin critics", "--env-id Pendulum-v1 --learning-starts 260"),
    _cleanrl("sac_continuous_action", "entropy tuned", "--env-id Pendulum-v1 --learning-starts 260"),
    _cleanrl("ppo_continuous_action", "normal distributions", "--env-id Pendulum-v1 --num-steps 128"),
    Program(
        "mingpt-chargpt",
        "GPT-mini on characters",
        PROGRAMS["mingpt-adder"].source,
        "chargpt.py",
        "--trainer.max_iters=10 --trainer.num_workers=0",
        folder="projects/chargpt",
        data=("input_text",),
        environment={"PYTHONPATH": "{root}"},
    ),
    _x_transformers("copy", "encoder and decoder"),
    _x_transformers("free", "latent bits, straight-through"),
    _x_transformers("belief_state", "forward and backward decoders"),
    _x_transformers("parity", "a hybrid with an RNN, Lion", packages="lion-pytorch"),
    _x_transformers("length_extrapolate", "accelerate, ALiBi or RoPE", packages="accelerate"),
    _x_transformers("enwik8", "accelerate, wandb off", packages="accelerate fire wandb"),
    _x_transformers("xl_enwik8", "memories of earlier segments", packages="accelerate fire wandb"),
    _accelerate("gradient_accumulation", "four batches a step", "--gradient_accumulation_steps 4"),
    _accelerate("local_sgd", "parameters averaged now and then", "--mixed_precision fp16"),
    _accelerate("memory", "a batch size that fits", "--mixed_precision no"),
    _accelerate("early_stopping", "a trigger summed over ranks"),
    _peft("dora", "DoRA", "dora_finetuning", f"--use_dora {GUANACO}"),
    _peft("randlora", "random bases", "randlora_finetuning", f"--device cuda {GUANACO}"),
    _peft("road", "rotations", "road_finetuning", f"--road_target_modules q_proj,v_proj {GUANACO}"),
    _peft("delora", "normed LoRA", "delora_finetuning", f"--device cuda {GUANACO}"),
    _peft("shira", "sparse high-rank", "shira_finetuning", f"{ALPACA} --dtype bfloat16", ("llama", "instructions")),
    _peft("waveft", "wavelets", "waveft_finetuning", f"{ALPACA} --dtype bfloat16", ("llama", "instructions")),
    _peft("hira", "Hadamard products", "hira_finetuning", f"{ALPACA} --dtype bfloat16", ("llama", "instructions")),
    _trl("sft", "supervised, packed", "texts", "--max_length 256 --packing True"),
    _trl("dpo", "preferences, LoRA", "preferences", "--use_peft True"),
    _trl("kto", "unpaired preferences", "unpaired"),
    _trl("reward", "a reward model", "preferences"),
    _geometric("gcn", "graph convolutions", "--epochs 4"),
    _geometric("gat", "graph attention", "--epochs 4"),
    _geometric("autoencoder", "a graph's autoencoder", "--epochs 4"),
    _geometric("agnn", "attention by likeness"),
    _geometric("arma", "ARMA filters"),
    _geometric("sgc", "one linear layer after propagation"),
    _geometric("tagcn", "polynomials of the graph"),
    _geometric("super_gat", "attention with a loss of its own"),
    _geometric("gcn2_cora", "many layers"),
    _geometric("infomax_transductive", "mutual information"),
)

WIDER = {program.name: program for program in _ALL}
