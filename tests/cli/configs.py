#!/usr/bin/env python3
"""Counts the models of tests/fixtures/configs a second time, by formulas of its own, and compares three figures: the
published one of README.md there, this count, and what `pipesim models FILE --json` says."""
import json, os, re, subprocess, sys

FOLDER = os.path.join(os.environ.get("G_TEST_SRCDIR", os.path.join(os.path.dirname(__file__), "..")), "fixtures", "configs")
PIPESIM = os.path.join(os.environ.get("PIPESIM_BINDIR", "build"), "pipesim")


class Config(dict):
    """The keys of the text model; those that transformers leaves to its defaults return None."""

    def __init__(self, path):
        with open(path) as file:
            outer = json.load(file)
        super().__init__({**outer, **outer.get("text_config", {})})
        self.outer = outer

    def __getattr__(self, key):
        return self.get(key)

    def first(self, *keys):
        return next((self[key] for key in keys if self.get(key) is not None), None)


def units(c):
    """[(letter of the mixer or None, letter of the feed-forward or None)], a layer each."""
    n = c.first("num_hidden_layers", "n_layer")
    if c.hybrid_override_pattern:
        return [(letter, None) if letter in "M*" else (None, letter) for letter in c.hybrid_override_pattern]
    kind = c.model_type
    mixer = "*"
    if c.kv_lora_rank:
        mixer = "D" if c.index_topk else "+"
    mixers = [mixer] * n
    if kind == "kimi_linear":
        mixers = ["+" if i + 1 in c.linear_attn_config["full_attn_layers"] else "K" for i in range(n)]
    elif c.full_attention_interval:
        mixers = ["*" if (i + 1) % c.full_attention_interval == 0 else "G" for i in range(n)]
    elif kind == "minimax":
        mixers = ["*" if name == "full_attention" else "l" for name in c.layer_types]
    elif kind == "gpt_oss":
        mixers = ["*" if name == "full_attention" else "w" for name in c.layer_types]
    elif kind == "gemma2":
        mixers = ["w" if i % 2 == 0 else "*" for i in range(n)]
    elif kind == "gemma3_text":
        mixers = ["*" if i % 6 == 5 else "w" for i in range(n)]
    elif kind == "llama4_text":
        mixers = ["*" if i % 4 == 3 else "w" for i in range(n)]
    elif kind == "mistral" and c.sliding_window or kind == "phi3" and c.sliding_window:
        mixers = ["w"] * n
    elif kind == "deepseek_v4":
        mixers = [{0: "4", 4: "C", 128: "H"}[ratio] for ratio in c.compress_ratios]
    elif kind == "mimo_v2_flash":
        mixers = ["W" if each else "V" for each in c.hybrid_layer_pattern]
    dense = set(range(c.first_k_dense_replace or 0)) | set(c.mlp_only_layers or [])
    experts = set(range(n)) - dense
    if kind == "llama4_text":
        step = c.interleave_moe_layer_step
        experts = set(range(step - 1, n, step))
    elif kind == "ernie4_5_moe":
        experts = {i for i in range(n) if i >= c.moe_layer_start_index and i <= c.moe_layer_end_index}
    elif kind == "mimo_v2_flash":
        experts = {i for i in range(n) if c.moe_layer_freq[i]}
    elif kind == "step3_text":
        experts = {int(i) for i in c.moe_layers_enum.split(",")}
    if not c.first("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"):
        experts = set()
    return [(mixers[i], "E" if i in experts else "-") for i in range(n)]


NORM_WITH_BIAS = ("bloom", "falcon", "gpt_neox", "opt")
ALL_BIASES = ("bloom", "gpt_neox", "opt")
FOUR_NORMS = ("gemma2", "gemma3_text", "glm4")
NORMS_OF_QUERIES = ("qwen3", "qwen3_moe", "qwen3_next", "qwen3_5_moe_text", "gemma3_text")


def attention(c):
    h, a = c.first("hidden_size", "n_embed"), c.first("num_attention_heads", "n_head")
    z = c.head_dim or h // a
    k = c.first("num_key_value_heads", "num_kv_heads", "num_attention_groups") or a
    if c.model_type == "falcon" and not c.new_decoder_architecture:
        k = 1 if c.multi_query else a
    q, kv = a * z, k * z
    if c.share_q_dim:
        count = h * c.share_q_dim + c.share_q_dim + c.share_q_dim * q + 2 * h * kv + q * h
    else:
        count = h * q + 2 * h * kv + q * h
    biased = c.model_type in ALL_BIASES + ("qwen2", "qwen2_moe") or c.attention_bias
    if biased:
        count += q + 2 * kv
    if c.model_type in ALL_BIASES + ("gpt_oss",):
        count += h
    if c.model_type in NORMS_OF_QUERIES or (c.model_type == "glm4_moe" and c.use_qk_norm):
        count += 2 * z
    if c.model_type in ("olmo2", "minimax_m2"):
        count += q + kv
    if c.model_type in ("qwen3_next", "qwen3_5_moe_text"):
        count += h * q  # the gate
    if c.model_type == "gpt_oss":
        count += a  # sinks
    return count


def latent(c):
    h, a, rank = c.hidden_size, c.num_attention_heads, c.kv_lora_rank
    nope, rope, v = c.qk_nope_head_dim, c.qk_rope_head_dim, c.v_head_dim
    queries = a * (nope + rope)
    if c.q_lora_rank:
        count = h * c.q_lora_rank + c.q_lora_rank + c.q_lora_rank * queries
    else:
        count = h * queries
    return count + h * (rank + rope) + rank + rank * a * (nope + v) + a * v * h


def sparse(c):
    heads, size = c.index_n_heads, c.index_head_dim
    return latent(c) + c.q_lora_rank * heads * size + c.hidden_size * size + 2 * size + c.hidden_size * heads


def mamba(c):
    inner, states = c.mamba_num_heads * c.mamba_head_dim, 2 * c.n_groups * c.ssm_state_size
    channels = inner + states
    return (c.hidden_size * (2 * inner + states + c.mamba_num_heads) + channels * c.conv_kernel + channels
            + 3 * c.mamba_num_heads + inner + inner * c.hidden_size)


def delta(c):
    h, heads = c.hidden_size, c.linear_num_value_heads
    keys, values = c.linear_num_key_heads * c.linear_key_head_dim, heads * c.linear_value_head_dim
    return (h * (2 * keys + 2 * values + 2 * heads) + (2 * keys + values) * c.linear_conv_kernel_dim + 2 * heads
            + c.linear_value_head_dim + values * h)


def kimi_delta(c):
    h, z, heads = c.hidden_size, c.linear_attn_config["head_dim"], c.linear_attn_config["num_heads"]
    width = heads * z
    conv = 3 * width * c.linear_attn_config["short_conv_kernel_size"]
    return h * 3 * width + conv + 2 * (h * z + z * width) + h * heads + heads + width + z + width * h


def lightning(c):
    q = c.num_attention_heads * c.head_dim
    return c.hidden_size * 4 * q + q + q * c.hidden_size


def v4(c):
    """One vector of keys that are values, too; the output in groups; a sink of each head."""
    h, q, z, a = c.hidden_size, c.q_lora_rank, c.head_dim, c.num_attention_heads
    narrow = c.o_groups * c.o_lora_rank
    return h * q + q + q * a * z + h * z + z + a * z // c.o_groups * narrow + narrow * h + a


def v4_sparse(c):
    """Entries of 4 tokens that overlap, and an indexer with entries of its own."""
    h, z, heads, d = c.hidden_size, c.head_dim, c.index_n_heads, c.index_head_dim
    pool = lambda size: 2 * h * 2 * size + 4 * 2 * size + size
    return v4(c) + pool(z) + pool(d) + c.q_lora_rank * heads * d + h * heads


def v4_heavy(c):
    return v4(c) + 2 * c.hidden_size * c.head_dim + 128 * c.head_dim + c.head_dim


def mimo(c, heads, kv, key, value, sinks):
    h = c.hidden_size
    return h * heads * key + h * kv * (key + value) + heads * value * h + (heads if sinks else 0)


def mimo_full(c):
    return mimo(c, c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.v_head_dim, False)


def mimo_window(c):
    return mimo(c, c.swa_num_attention_heads, c.swa_num_key_value_heads, c.swa_head_dim, c.swa_v_head_dim, True)


MIXERS = {"4": v4, "C": v4_sparse, "H": v4_heavy, "V": mimo_full, "W": mimo_window, "*": attention, "w": attention, "+": latent, "D": sparse, "M": mamba, "G": delta, "K": kimi_delta,
          "l": lightning}


def mlp(c, width, inner=None):
    """width -> inner -> width, with or without a gate."""
    f = inner
    if c.model_type in ALL_BIASES:
        return 2 * width * f + f + width
    if c.model_type in ("falcon", "nemotron_h"):
        return 2 * width * f
    if c.model_type == "gpt_oss":
        return 3 * width * f + 2 * f + width
    return 3 * width * f


def dense(c):
    h = c.first("hidden_size", "n_embed")
    f = c.first("intermediate_size_mlp", "intermediate_size", "ffn_dim", "n_inner") or 4 * h
    return mlp(c, h, f)


def experts(c):
    """(parameters, those of experts that a token does not visit)"""
    h = c.hidden_size
    n = c.first("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    top = c.first("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_top_k")
    f = c.moe_intermediate_size or c.intermediate_size
    width = c.moe_latent_size or h
    one = mlp(c, width, f)
    shared = c.first("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim")
    if shared is None:
        shared = f * (c.first("n_shared_experts", "num_shared_experts", "moe_num_shared_experts") or 0)
    if c.model_type == "llama4_text":
        shared = f
    total = n * one + (mlp(c, h, shared) if shared else 0) + h * n
    if c.model_type in ("qwen2_moe", "qwen3_next", "qwen3_5_moe_text"):
        total += h  # the gate of the shared expert
    if c.model_type == "gpt_oss":
        total += n
    if c.moe_latent_size:
        total += 2 * h * c.moe_latent_size
    return total, (n - top) * one


def layer(c, mixer, forward):
    """(parameters, idle parameters) of a layer."""
    h = c.first("hidden_size", "n_embed")
    norm = 2 * h if c.model_type in NORM_WITH_BIAS else h
    total, idle = 0, 0
    if mixer is not None:
        total += MIXERS[mixer](c) + norm
    if forward == "E":
        count, idle = experts(c)
        total += count + norm
    elif forward == "-":
        total += dense(c) + norm
    if c.hc_mult:  # hyper-connections before attention and before experts
        mix = (2 + c.hc_mult) * c.hc_mult
        total += 2 * (mix * c.hc_mult * h + mix + 3)
    if c.model_type in FOUR_NORMS:
        total += 2 * norm
    if c.model_type == "falcon" and not c.new_decoder_architecture:
        total -= norm  # attention and MLP share one
    return total, idle


def count(c):
    """(parameters, active ones, parameters of multi-token prediction)"""
    h, V = c.first("hidden_size", "n_embed"), c.vocab_size or 262208
    norm = 2 * h if c.model_type in NORM_WITH_BIAS else h
    tied = c.outer.get("tie_word_embeddings", c.tie_word_embeddings)
    if tied is None:
        tied = c.model_type in ("bloom", "falcon", "opt", "gemma2", "gemma3_text")
    ends = (1 if tied else 2) * V * h + norm
    if c.model_type == "opt":
        ends += (c.max_position_embeddings + 2) * h
    if c.model_type == "bloom":
        ends += norm
    if c.hc_mult:
        ends += c.hc_mult * c.hc_mult * h + c.hc_mult + 1
    layers = [layer(c, mixer, forward) for mixer, forward in units(c)]
    total = ends + sum(each for each, _ in layers)
    n_mtp = 0 if c.model_type == "deepseek_v4" else c.first("num_nextn_predict_layers", "mtp_num_hidden_layers") or 0
    last = units(c)[-1:]
    if c.mtp_hybrid_override_pattern:
        last = [(letter, None) if letter == "*" else (None, letter) for letter in c.mtp_hybrid_override_pattern]
    mtp = n_mtp * (2 * h * h + 3 * norm + sum(layer(c, mixer, forward)[0] for mixer, forward in last))
    return total, total - sum(idle for _, idle in layers), mtp


def encoder(c):
    """Parameters of the vision encoder and what brings its results to the decoder; None: pipesim reads none."""
    v, kind = c.outer.get("vision_config", {}), c.outer.get("model_type")
    if kind not in ("gemma3", "llama4", "qwen3_5_moe"):
        return None
    w, f = v["hidden_size"], v.get("intermediate_size", {"llama4": 5632}.get(kind, 4304))
    patch = v.get("patch_size", 16 if kind == "qwen3_5_moe" else 14)
    norm = 2 * w
    blocks = v.get("num_hidden_layers", v.get("depth")) * (4 * (w * w + w) + 2 * w * f + f + w + 2 * norm)
    pixels = 3 * patch * patch
    if kind == "gemma3":  # SigLIP, an RMS norm and a matrix
        return blocks + pixels * w + w + (v["image_size"] // patch) ** 2 * w + norm + w + w * c.hidden_size
    if kind == "llama4":  # a class token, norms before and after, two matrices after the pixel shuffle, and a projection
        tokens = (v["image_size"] // patch) ** 2 + 1
        return blocks + pixels * w + w + tokens * w + 2 * norm + f * 4096 + 4096 * 4096 + 4096 * c.hidden_size
    merged = 4 * w  # two pictures to a patch; a merger with biases
    return (blocks + 2 * pixels * w + w + 2304 * w + norm + merged * merged + merged + merged * c.hidden_size
            + c.hidden_size)


def published():
    """The rows of README.md: name -> (published, left out, parameters, MTP, active in billions)."""
    rows = {}
    with open(os.path.join(FOLDER, "README.md")) as file:
        for line in file:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if re.fullmatch(r"[a-z0-9.-]+", cells[0]) and len(cells) == 7 and cells[3].replace(",", "").isdigit():
                number = lambda text: int(text.replace(",", "")) if text else 0
                rows[cells[0]] = (cells[1], number(cells[2]), number(cells[3]), number(cells[4]), cells[5])
    return rows


def of_pipesim(path):
    text = subprocess.run([PIPESIM, "models", path, "--json"], capture_output=True, text=True)
    if text.returncode != 0:
        return text.stderr.strip(), 0, None
    row = json.loads(text.stdout)["results"][0]
    return row["parameters"], row.get("active_parameters") or row["parameters"], row.get("encoder_parameters")


def is_active(c, count, figure):
    """Whether the count, or that without one or both matrices of the vocabulary, rounds to the published figure."""
    unit = 10.0 ** -len(figure.partition(".")[2])
    matrix = c.vocab_size * c.hidden_size if figure else 0
    return not figure or any(abs((count - n * matrix) / 1e9 - float(figure)) <= 0.6 * unit for n in range(3))


def main():
    rows = published()
    files = sorted(name[:-5] for name in os.listdir(FOLDER) if name.endswith(".json"))
    failures = 0
    checks = []
    for name in files:
        path = os.path.join(FOLDER, name + ".json")
        figure, left_out, parameters, mtp, active = rows.get(name, ("", 0, -1, 0, ""))
        ours = count(Config(path))
        vision = encoder(Config(path))
        theirs = of_pipesim(path) if "--count" not in sys.argv else (parameters + mtp, ours[1], vision)
        digits = figure.replace(",", "")
        exact = digits.isdigit() and len(digits) > 5
        good = (ours[0] == parameters and ours[2] == mtp and theirs == (parameters + mtp, ours[1], vision) and vision in (None, left_out)
                and (int(digits) == parameters + mtp + left_out if exact
                     else abs(float(digits or 0) * 1e9 - parameters) <= 0.006 * parameters)
                and is_active(Config(path), ours[1], active))
        failures += not good
        checks.append("%s - %s: counted here %d (a token meets %d, multi-token prediction %d), pipesim %s, README.md %s"
                      % ("ok" if good else "not ok", name, ours[0], ours[1], ours[2], theirs,
                         rows.get(name, "has no such row")))
    missing = sorted(set(rows) - set(files))
    print("1..%d" % (len(checks) + 1))
    for i, check in enumerate(checks):
        print(check.replace("ok -", "ok %d -" % (i + 1), 1))
    print("%sok %d - %d models, %d of them published to the parameter%s"
          % ("" if not missing and len(files) >= 25 else "not ", len(checks) + 1, len(files),
             sum(row[0].count(",") > 1 for row in rows.values()), "; no file: %s" % missing if missing else ""))
    return failures


if __name__ == "__main__":
    main()
