"""Training steps of small encoders, translators and models of images and sound, of transformers: two each."""

from pathlib import Path

import torch

from every_byte.gpu.cases.programs import load_module

zoo = load_module(Path(__file__).with_name("zoo_steps.py"))

CASES = {}
ALIKE = dict(
    vocab_size=300,
    hidden_size=72,
    intermediate_size=104,
    num_hidden_layers=2,
    num_attention_heads=6,
    max_position_embeddings=128,
    pad_token_id=0,
)
PAIR = dict(
    vocab_size=300,
    d_model=72,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=6,
    decoder_attention_heads=6,
    encoder_ffn_dim=104,
    decoder_ffn_dim=104,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
)
PICTURE = dict(
    hidden_size=72, intermediate_size=104, num_hidden_layers=2, num_attention_heads=6, image_size=36, patch_size=12
)
SWIN = dict(image_size=48, patch_size=4, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=3)
SAM = dict(
    vision_config=PICTURE
    | dict(num_pos_feats=12, image_size=48, global_attn_indexes=[1], window_size=2, output_channels=24, mlp_dim=104),
    prompt_encoder_config=dict(hidden_size=24, image_size=48, patch_size=12, mask_input_channels=4),
    mask_decoder_config=dict(
        hidden_size=24, mlp_dim=40, num_hidden_layers=2, num_attention_heads=2, iou_head_hidden_dim=24
    ),
)


def hidden_labels(x):
    """A seventh of the tokens as labels, and -100 for the others."""
    labels = torch.full_like(x, -100)
    labels[:, ::7] = x[:, ::7]
    return {"input_ids": x, "labels": labels}


def words(*shape):
    return hidden_labels(zoo.tokens(*shape))


def one_class(name="input_ids", x=None):
    x = zoo.tokens(3, 53) if x is None else x
    return {name: x, "labels": torch.zeros(len(x), dtype=torch.long)}


def each_token():
    x = zoo.tokens(3, 53)
    return {"input_ids": x, "labels": x % 2}


def a_span():
    return {
        "input_ids": zoo.tokens(3, 53),
        "start_positions": torch.tensor([3, 7, 9]),
        "end_positions": torch.tensor([5, 8, 20]),
    }


def translated():
    return {"input_ids": zoo.tokens(3, 53), "labels": zoo.tokens(3, 37)}


def pages():
    boxes = torch.randint(0, 40, (3, 53, 4))
    boxes[..., 2:] += boxes[..., :2]
    return words(3, 53) | {"bbox": boxes}


def pictures():
    return one_class("pixel_values", torch.randn(3, 3, 36, 36))


def larger_pictures():
    return one_class("pixel_values", torch.randn(3, 3, 48, 48))


def described():
    return {"input_ids": zoo.tokens(3, 17), "pixel_values": torch.randn(3, 3, 36, 36), "return_loss": True}


def spoken():
    return {"input_features": torch.randn(2, 16, 96), "labels": zoo.tokens(2, 23)}


def pointed():
    return {"pixel_values": torch.randn(2, 3, 48, 48), "input_points": torch.rand(2, 1, 3, 2)}


# name: (class, configuration, its settings, inputs)
MODELS = {
    "bert": ("BertForMaskedLM", "bert", ALIKE, lambda: words(3, 53)),
    "roberta": ("RobertaForSequenceClassification", "roberta", ALIKE | dict(pad_token_id=1), one_class),
    "deberta_v2": (
        "DebertaV2ForTokenClassification",
        "deberta-v2",
        ALIKE
        | dict(
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_buckets=16,
            norm_rel_ebd="layer_norm",
            share_att_key=True,
        ),
        each_token,
    ),
    "electra": ("ElectraForPreTraining", "electra", ALIKE | dict(embedding_size=40), each_token),
    "albert": ("AlbertForMaskedLM", "albert", ALIKE | dict(embedding_size=40), lambda: words(3, 53)),
    "distilbert": (
        "DistilBertForQuestionAnswering",
        "distilbert",
        dict(vocab_size=300, dim=72, n_layers=2, n_heads=6, hidden_dim=104, max_position_embeddings=128),
        a_span,
    ),
    "modernbert": (
        "ModernBertForMaskedLM",
        "modernbert",
        ALIKE
        | dict(
            local_attention=16,
            layer_types=["sliding_attention"] * 2,
            cls_token_id=1,
            sep_token_id=2,
            bos_token_id=1,
            eos_token_id=2,
        ),
        lambda: words(3, 53),
    ),
    "layoutlm": ("LayoutLMForMaskedLM", "layoutlm", ALIKE | dict(max_2d_position_embeddings=128), pages),
    "t5": ("T5ForConditionalGeneration", "t5", zoo.T5, translated),
    "bart": ("BartForConditionalGeneration", "bart", PAIR | dict(max_position_embeddings=128), translated),
    "whisper": (
        "WhisperForConditionalGeneration",
        "whisper",
        PAIR | dict(num_mel_bins=16, max_source_positions=48, max_target_positions=64),
        spoken,
    ),
    "vit": ("ViTForImageClassification", "vit", PICTURE, pictures),
    "swin": ("SwinForImageClassification", "swin", SWIN, larger_pictures),
    "clip": (
        "CLIPModel",
        "clip",
        dict(projection_dim=40, text_config=ALIKE | dict(bos_token_id=1, eos_token_id=299), vision_config=PICTURE),
        described,
    ),
    "sam": ("SamModel", "sam", SAM, pointed),
}


def case(name, attention="sdpa", *, cards=("a100",), **options):
    def run(env):
        import transformers

        kind, config, settings, inputs = MODELS[name]
        config = transformers.AutoConfig.for_model(config, **settings)
        config._attn_implementation = attention
        zoo.trained(env, getattr(transformers, kind)(config), inputs(), **options)

    run.cudnn_sdp, run.cards, run.flagged = False, cards, zoo.CONVOLUTIONS if name in OF_PICTURES_AND_SOUND else ()
    CASES[f"zoo_{name}"] = run


def of_masks(output):
    return output.pred_masks.sigmoid().mean() + output.iou_scores.mean()


HALF, BRAIN = torch.float16, torch.bfloat16
OF_PICTURES_AND_SOUND = ("whisper", "vit", "swin", "clip", "sam")
case("bert", cards=("a100", "t4"))
case("roberta", "eager", autocast=BRAIN)
case("deberta_v2", "eager")
case("electra", autocast=BRAIN, optimizer="AdamW fused")
case("albert", "eager", optimizer="SGD foreach")
case("distilbert", autocast=HALF, cards=("a100", "t4"))
case("modernbert", autocast=BRAIN)
case("layoutlm", optimizer="Adafactor")
case("t5", "eager", autocast=BRAIN)
case("whisper", autocast=BRAIN)
case("vit")
case("swin", "eager", autocast=BRAIN)
case("clip", autocast=BRAIN, optimizer="SGD")
case("sam", loss=of_masks)
