"""Training steps of small Llamas and T5s with other choices: adapters, checkpoints, optimizers, types."""

from pathlib import Path

import torch

from every_byte.gpu.cases.programs import load_module

zoo = load_module(Path(__file__).with_name("zoo_steps.py"))

CASES = {}
LLAMA = dict(
    vocab_size=300,
    hidden_size=72,
    intermediate_size=104,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    max_position_embeddings=128,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)


ONE_SEQUENCE = (True,)
"""With checkpoints there is no cache of keys, and the library looks whether each row has the positions of one sequence:
what a card answers, as in zoo_masked_cases.py."""


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100",)
    CASES[f"zoo_{function.__name__}"] = function
    return function


def llama(attention="sdpa", dtype=torch.float32, **settings):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**LLAMA | settings)
    config._attn_implementation = attention
    return LlamaForCausalLM(config).to(dtype)


def t5(**settings):
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(T5Config(**zoo.T5 | settings))


def text(*shape):
    x = zoo.tokens(*(shape or (2, 61)))
    return {"input_ids": x, "labels": x}


def translated():
    return {"input_ids": zoo.tokens(3, 53), "labels": zoo.tokens(3, 37)}


@case
def lora_on_llama(env):
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(llama(), LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], lora_dropout=0.1))
    zoo.trained(env, model, text())


@case
def lora_on_llama_of_bfloat16(env):
    """Adapters of float32 beside weights of bfloat16, and checkpoints that want a gradient of their inputs."""
    from peft import LoraConfig, get_peft_model

    model = llama(dtype=torch.bfloat16)
    model.gradient_checkpointing_enable({"use_reentrant": True})
    model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", use_rslora=True))
    zoo.trained(env, model, text(), autocast=torch.bfloat16, answers=ONE_SEQUENCE)


@case
def dora_on_llama(env):
    from peft import LoraConfig, get_peft_model

    zoo.trained(
        env, get_peft_model(llama(), LoraConfig(r=4, target_modules=["q_proj", "o_proj"], use_dora=True)), text()
    )


@case
def lora_on_t5(env):
    from peft import LoraConfig, TaskType, get_peft_model

    settings = LoraConfig(task_type=TaskType.SEQ_2_SEQ_LM, r=4, target_modules=["q", "v"], lora_dropout=0.05)
    zoo.trained(env, get_peft_model(t5(), settings), translated(), autocast=torch.bfloat16)


@case
def prompts_before_llama(env):
    """Learned prompts; only they are trained."""
    from peft import PromptTuningConfig, TaskType, get_peft_model

    settings = PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=5)
    zoo.trained(env, get_peft_model(llama(), settings), text())


@case
def ia3_on_t5(env):
    from peft import IA3Config, TaskType, get_peft_model

    zoo.trained(env, get_peft_model(t5(), IA3Config(task_type=TaskType.SEQ_2_SEQ_LM)), translated())


@case
def checkpoints_in_llama(env):
    model = llama(attention_dropout=0.1)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    zoo.trained(env, model, text(), autocast=torch.bfloat16, answers=ONE_SEQUENCE)


@case
def reentrant_checkpoints_in_llama(env):
    model = llama("eager", attention_dropout=0.1)
    model.gradient_checkpointing_enable({"use_reentrant": True})
    zoo.trained(env, model, text(), answers=ONE_SEQUENCE)


@case
def checkpoints_in_t5(env):
    model = t5()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    zoo.trained(env, model, translated())


@case
def weights_of_bfloat16(env):
    zoo.trained(env, llama(dtype=torch.bfloat16), text(), optimizer="AdamW fused")


@case
def weights_of_float16(env):
    zoo.trained(env, llama("eager", torch.float16), text(), optimizer="SGD foreach")


@case
def adafactor_on_t5(env):
    zoo.trained(env, t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False), translated(), optimizer="Adafactor")


@case
def adafactor_on_bfloat16(env):
    zoo.trained(env, llama(dtype=torch.bfloat16), text(), optimizer="Adafactor")


@case
def labels_in_part(env):
    """Only the answer's tokens count: the rest has the label -100."""
    inputs = text()
    inputs["labels"] = inputs["labels"].clone()
    inputs["labels"][:, :40] = -100
    zoo.trained(env, llama(tie_word_embeddings=True), inputs, optimizer="AdamW foreach", autocast=torch.float16)


@case
def yarn_and_biases(env):
    """Rotary embeddings stretched, biases in attention and MLP, dropout on."""
    rope = {"rope_type": "yarn", "factor": 2.0, "rope_theta": 10000.0, "original_max_position_embeddings": 64}
    model = llama("eager", rope_parameters=rope, attention_bias=True, mlp_bias=True, attention_dropout=0.2)
    zoo.trained(env, model, text(), autocast=torch.bfloat16)


@case
def clipped_and_scheduled(env):
    """A loop as a trainer writes it: two micro-batches a step, the norm of the gradients clipped, a schedule."""
    from transformers import get_cosine_schedule_with_warmup

    model = llama(dtype=torch.bfloat16).to(env.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    schedule = get_cosine_schedule_with_warmup(optimizer, 1, 10)
    env.mark("model")
    for i in range(2):
        for j in range(2):
            inputs = zoo.moved(text(2, 41 + 8 * j), env.device)
            loss = model(**inputs).loss / 2
            loss.backward()
            env.mark(f"micro-batch {i} {j}")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        env.mark(f"clipped {i}")
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        env.mark(f"step {i}")
