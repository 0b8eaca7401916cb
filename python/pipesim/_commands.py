"""The commands of pipesim; write_commands.py writes this file from the options of the program."""

from __future__ import annotations

from . import Flag, Plan, Prediction, Result, Row, SearchResult, Value, _ask, _texts, _words, run

_PREDICT: dict[str, str] = {
    "from_": ",",
    "schedule": ",",
    "devices": ",",
    "microbatches": ",",
    "chunks": ",",
    "bubble": ",",
    "slices": ":",
    "attention_exchange": ",",
    "serve": ",",
    "prompt": ":",
    "chunk": ":",
    "group": ",",
    "defer_head": ",",
    "lengths": ",",
    "microbatch_order": ",",
    "layout": ",",
    "placement": ",",
    "microbatch_size": ",",
    "model": ",",
    "precision": ",",
    "sequence": ",",
    "images": ",",
    "costs_from": "",
    "db": ",",
    "profile": ",",
    "costs": ",",
    "cluster": ",",
    "bandwidth_factor": ",",
    "network_factor": ",",
    "latency_factor": ",",
    "cuda_graphs": ",",
    "tp_comm_overlap": ",",
    "moe_token_dispatcher_type": ",",
    "speed": ":",
    "overlap_slowdown": ",",
    "overlap_waiting": ",",
    "ready_order": ",",
    "memory_limit": ":",
    "comm": ",",
    "comm_order": ",",
    "eager": ",",
    "blocking": ",",
    "share_links": ",",
    "recompute": ":",
    "offload": ":",
    "offload_modules": ",",
    "replicas": ",",
    "adjacent_replicas": ",",
    "overlap_param_gather": ",",
    "tensor": ",",
    "context": ",",
    "cp_comm_type": ",",
    "experts": ",",
    "loss": ",",
    "sequence_parallel": ",",
    "activation_func_fp8_input_store": ",",
    "framework": ",",
    "optimizer": ",",
    "optimizer_implementation": ",",
    "main_grads_dtype": ",",
    "main_params_dtype": ",",
    "exp_avg_dtype": ",",
    "exp_avg_sq_dtype": ",",
    "fp8_param_gather": ",",
    "zero": ",",
    "reduce": ",",
    "sync": ",",
    "samples": ",",
    "jitter": ",",
    "straggler": "",
    "slow_link": "",
    "seed": ",",
    "jobs": ",",
    "expect": ",",
    "update": ",",
    "tolerance": ",",
    "output": ",",
    "to": ",",
    "force": ",",
    "memory": ",",
    "explain": ",",
    "faster": ",",
    "print_costs": ",",
}


def predict(
    *,
    from_: Value = None,
    schedule: Value = None,
    devices: Value = None,
    microbatches: Value = None,
    chunks: Value = None,
    bubble: Value = None,
    slices: Value = None,
    attention_exchange: Flag = None,
    serve: Value = None,
    prompt: Value = None,
    chunk: Value = None,
    group: Value = None,
    defer_head: Value = None,
    lengths: Value = None,
    microbatch_order: Value = None,
    layout: Value = None,
    placement: Value = None,
    microbatch_size: Value = None,
    model: Value = None,
    precision: Value = None,
    sequence: Value = None,
    images: Value = None,
    costs_from: Value = None,
    db: Value = None,
    profile: Value = None,
    costs: Value = None,
    cluster: Value = None,
    bandwidth_factor: Value = None,
    network_factor: Value = None,
    latency_factor: Value = None,
    cuda_graphs: Value = None,
    tp_comm_overlap: Flag = None,
    moe_token_dispatcher_type: Value = None,
    speed: Value = None,
    overlap_slowdown: Value = None,
    overlap_waiting: Flag = None,
    ready_order: Value = None,
    memory_limit: Value = None,
    comm: Value = None,
    comm_order: Value = None,
    eager: Value = None,
    blocking: Flag = None,
    share_links: Flag = None,
    recompute: Value = None,
    offload: Value = None,
    offload_modules: Value = None,
    replicas: Value = None,
    adjacent_replicas: Flag = None,
    overlap_param_gather: Flag = None,
    tensor: Value = None,
    context: Value = None,
    cp_comm_type: Value = None,
    experts: Value = None,
    loss: Value = None,
    sequence_parallel: Flag = None,
    activation_func_fp8_input_store: Flag = None,
    framework: Value = None,
    optimizer: Value = None,
    optimizer_implementation: Value = None,
    main_grads_dtype: Value = None,
    main_params_dtype: Value = None,
    exp_avg_dtype: Value = None,
    exp_avg_sq_dtype: Value = None,
    fp8_param_gather: Flag = None,
    zero: Value = None,
    reduce: Value = None,
    sync: Value = None,
    samples: Value = None,
    jitter: Value = None,
    straggler: Value = None,
    slow_link: Value = None,
    seed: Value = None,
    jobs: Value = None,
    expect: Value = None,
    update: Flag = None,
    tolerance: Value = None,
    output: Value = None,
    to: Value = None,
    force: Flag = None,
    memory: Flag = None,
    explain: Flag = None,
    faster: Value = None,
    print_costs: Flag = None,
) -> Result[Prediction]:
    """Simulates schedules: time, bubble, memory, and a bound that no order of the same ops can beat.

    from_: Take the setting of a launch: a script, arguments, log or YAML of Megatron-LM, TOML or words of
        torchtitan, JSON of DeepSpeed, or a config.json; other options win over it [default: none]
    schedule: Families, also by PyTorch's names (1F1B, ScheduleInterleaved1F1B), or schedule files, or all
        [required]
    devices: Number of devices (pipeline ranks); of a list, each [default: that of a schedule file; families
        need it]
    microbatches: Microbatches per iteration; of a list, each [default: that of a schedule file; families need
        it]
    chunks: Stages per device; of a list, each [default: the family's]
    bubble: Find the least m whose bubble of iteration is at most this, e.g. 0.05; -m is then the largest m to
        try [default: -m says it]
    slices: Slices of each sequence: Q of equal length; with even-work, Q whose F takes the same time, later
        ones shorter; or so many tokens each [default: the family's; a search's: 1]
    attention_exchange: Devices share the attention of modelled slices, so that all of them take the mean time
        (SlimPipe, arXiv 2504.14519); ops hide its messages
    serve: prefill: forwards alone, which take prompts in chunk after chunk; without decoding. none: training
        [default: none]
    prompt: Prompts of --serve: one of so many tokens, or several one after the other; -m, if it is more,
        repeats them [default: none]
    chunk: Chunks of each prompt: of so many tokens, the last size for all that follow; or N whose F takes the
        same time, later ones shorter [default: none]
    group: Microbatches that pass a chunk in a row [default: the family's]
    defer_head: The last stage keeps W of its first N microbatches for the drain [default: 0]
    lengths: Lengths of the microbatches: a CSV with one line for each, of tokens and images per sequence, or of
        factors on the costs (factor, or f, b, w, c, act, msg). Not with search --joint [default: all are alike]
    microbatch_order: Order of the microbatches of --lengths: given, ascending, descending or best (for each
        schedule) [default: given]
    layout: Stages of the model: a string as Megatron-LM takes it (Et*3|(tt|)*29,m|L) or a file with one, even
        (even:first=N:last=N, even:embedding:loss), or best, whose slowest stage is the fastest [default: the
        better one of best and even; measured costs need the stages of best]
    placement: Only schedules of this placement: loop, V, wave, bidirectional, or auto for any [default: auto]
    microbatch_size: Sequences per microbatch in place of the model's, for modelled costs [default: the model's]
    model: Model description or its name (tiny-gpt) [default: none]
    precision: Number format of the model: fp32, fp16, bf16, fp8, fp8-block, mxfp8 or nvfp4; the cluster's
        peak_flops does not change [default: its own]
    sequence: Tokens per sequence in place of the model's [default: the model's]
    images: Images of each sequence, which the model's encoder turns into tokens of it [default: the model's]
    costs_from: Costs of a run: a timeline, a trace, a folder with one trace per rank, or the log of Megatron-
        LM's timers. With several runs (it may be repeated, or has ':' between paths) one adds costs that
        another lacks. T is the time of an iteration without the profiler; the profiler's part is then taken
        out. With --model, a BW that no run splits is split into B and W by their operations. With --cluster and
        --model, transfers, all-reduces and memory are those of the model on the cluster [default: none]
    db: Measured costs [default: none]
    profile: Profile in the database [default: the only one]
    costs: Costs of a device's whole share, e.g. f=1ms,b=1ms,w=1ms,c=0,o=0,act=2MiB,wact=1MiB,weights=0, or
        lists of one value per stage: f=1ms:1.2ms:... [default: none]
    cluster: Cluster description or its name [default: none]
    bandwidth_factor: Multiplies the speed of links and network; given and measured transfers and all-reduces
        take 1 / FACTOR of their time [default: 1]
    network_factor: Multiplies the speed of the network between the nodes of --cluster alone; NVLink and other
        links stay [default: 1]
    latency_factor: Multiplies the latencies of links and network of --cluster [default: 1]
    cuda_graphs: Kernels of --cluster that do not wait for the host to launch them: none, attn (all but experts)
        or full_iteration [default: none]
    tp_comm_overlap: Products hide the cluster's tensor_overlap of the all-reduces of --tensor
    moe_token_dispatcher_type: What brings tokens to the experts of --experts: alltoall, deepep or hybridep
        [default: alltoall]
    speed: Speed of all devices, or of each; at 0.8 an op takes 1 / 0.8 of its cost [default: 1]
    overlap_slowdown: Factor on the time of ops while their device sends or receives, 1 to 8 [default: 1]
    overlap_waiting: Sends and receives also slow ops down while they wait, as NCCL's kernels do
    ready_order: Treats the order as a hint: a device starts the first of its next WINDOW ops that is ready
        [default: none]
    memory_limit: Memory of a device, or of each [default: the cluster's]
    comm: How transfers share channels: latency (transfers never queue), direction (one in-order channel for
        each pair of devices and direction), pair (one in-order channel for each pair of devices, as NCCL's
        2-rank communicators) or rank (one in-order channel for each device) [default: latency]
    comm_order: Where receives are posted: asap (as PyTorch lowers), deferred (right before the op that needs
        them) or planned (for these costs and channels) [default: as a torch-comms file says, else asap]
    eager: Messages up to this size do not wait for their receiver [default: 0]
    blocking: Sends and receives occupy their devices
    share_links: Transfers that run at the same time share the links of --cluster fairly
    recompute: Part of a forward that the backward computes again: none, modules of layers (core_attn, also
        called selective, layernorm, mla_up_proj, moe_act, moe, mlp, shared_experts, joined by +), full,
        full:layers=N (the first N of each stage) or full:uniform=N (inputs of groups of N are kept), of all
        stages or of each [default: none]
    offload: Part of the activations that moves to the host, 0 to 1, of all stages or of each [default: 0]
    offload_modules: Modules whose inputs move to the host: attn_norm, qkv_linear, core_attn, attn_proj,
        mlp_norm, expert_fc1, moe_act [default: none]
    replicas: Data-parallel copies of the pipeline [default: 1]
    adjacent_replicas: Replicas of a device are neighbours, as Megatron-LM places them [default: neighbours of a
        pipeline are]
    overlap_param_gather: Forwards of the next step hide the gather of the weights after --zero 1 and 2
    tensor: GPUs of a device, which share its layers by tensor and sequence parallelism within a node [default:
        1]
    context: Groups of --tensor GPUs in a device that share each sequence (context parallelism) [default: 1]
    cp_comm_type: How the groups of --context exchange what attention needs: all_gather (keys and values, before
        it), p2p (the same in a ring that attention hides, Megatron-LM's default) or a2a (heads for tokens)
        [default: all_gather]
    experts: GPUs of a device and its replicas that share the experts (expert parallelism) [default: 1]
    loss: What is done with the logits: whole keeps them; fused keeps none and computes them again (Megatron-
        LM's linear fusion of cross-entropy); chunked has an eighth at a time, with their gradients (torchtitan,
        Liger) [default: the model's]
    sequence_parallel: GPUs of --tensor share each sequence outside the matrices, too, also where the launch or
        the model says that they do not [default: the model's]
    activation_func_fp8_input_store: Forwards keep the inputs of SwiGLU in 8 bits [default: the model's]
    framework: Framework whose use of memory is counted: none (formulas only), megatron, megatron-bridge (its
        performance recipes: gradients in bf16, fp8 and mxfp8 weights alone) or deepspeed [default: the model's;
        megatron where the cluster's file states a datasheet's values alone]
    optimizer: adam, or muon: of the matrices of layers, with adam of all else [default: the model's]
    optimizer_implementation: fused, or PyTorch's foreach, which takes 4 bytes more for each parameter that a
        GPU steps, while it does [default: the model's]
    main_grads_dtype: Format in which gradients are added up and reduced: fp32, bf16, fp16, fp8 [default: the
        framework's]
    main_params_dtype: Format of the weights that the optimizer updates [default: the framework's]
    exp_avg_dtype: Format of Adam's first moment, or of Muon's momentum [default: the framework's]
    exp_avg_sq_dtype: Format of Adam's second moment [default: the framework's]
    fp8_param_gather: Weights of products are stored in the number format of the products alone [default: the
        framework's]
    zero: Stage of ZeRO. The replicas share out, at 0, nothing; at 1, the optimizer state; at 2, gradients too,
        as PyTorch's pipelines do: whole until their stage's last backward, so that time and memory are those of
        1; at 3, the weights, gathered for three stages at a time (FSDP) [default: 1 for modelled costs of
        several replicas or contexts, else 0]
    reduce: All-reduce of the gradients: overlapped with the ops that the device still has to run, or exposed
        after them [default: overlapped]
    sync: Synchronisation at the optimizer: global (all devices meet) or bypass (each device steps and goes on)
        [default: global]
    samples: Number of iterations to simulate with varying costs [default: 10000]
    jitter: Relative standard deviation of every op and transfer, e.g. 0.05; measured: that of the samples in
        --db [default: none]
    straggler: A device whose ops, O included, take FACTOR times as long, in this part of the iterations, 1
        unless given; may be repeated [default: none]
    slow_link: Two devices whose transfers take FACTOR times as long in both directions (if their link fails:
        the detour's FACTOR); may be repeated [default: none]
    seed: Seed of the random numbers [default: 1]
    jobs: Threads that sample; their number changes no figure [default: one per processor]
    expect: Compare with the predictions in FILE, and exit with 3 if one moved too far; without other options,
        all command lines in FILE are predicted again [default: none]
    update: With --expect: write what is predicted now into FILE
    tolerance: With --expect: how far time and memory may move; --update writes it into FILE [default: that in
        FILE; 2 % in new rows]
    output: Write the simulated timeline; FILE.trace.json is a Chrome trace, FILE.gz is packed [default: none]
    to: Print only the flags or keys with which megatron (HybridModel of Megatron-LM 0.18 and later, whose
        pattern says units and stages), megatron-gpt (GPTModel of 0.16 to 0.19: a layout string), torchtitan,
        torchtitan-0.2 or deepspeed run it (plan: with --explain RANK; else the rows that it runs stand first);
        counts memory as that framework does [default: none]
    force: With --to: also where memory does not suffice
    memory: Show what fills the memory of each device at its peak
    explain: Show the critical path, the causes of waiting, and the parts that would pay off
    faster: With --explain: time that a part saves in the list of parts that would pay off, in percent [default:
        10 %]
    print_costs: Print the costs of -p times -v stages as --costs takes them, and predict nothing
    """
    options = _words(_PREDICT, locals())
    return _ask(Prediction, "predict", [], options)


_SEARCH: dict[str, str] = {
    "time_limit": ",",
    "moves": ",",
    "seed": ",",
    "jobs": ",",
    "joint": ",",
    "from_": ",",
    "devices": ",",
    "microbatches": ",",
    "chunks": ",",
    "slices": ":",
    "attention_exchange": ",",
    "serve": ",",
    "prompt": ":",
    "chunk": ":",
    "lengths": ",",
    "microbatch_order": ",",
    "layout": ",",
    "placement": ",",
    "microbatch_size": ",",
    "model": ",",
    "precision": ",",
    "sequence": ",",
    "images": ",",
    "costs_from": "",
    "db": ",",
    "profile": ",",
    "costs": ",",
    "cluster": ",",
    "bandwidth_factor": ",",
    "network_factor": ",",
    "latency_factor": ",",
    "cuda_graphs": ",",
    "tp_comm_overlap": ",",
    "moe_token_dispatcher_type": ",",
    "speed": ":",
    "overlap_slowdown": ",",
    "overlap_waiting": ",",
    "ready_order": ",",
    "memory_limit": ":",
    "comm": ",",
    "comm_order": ",",
    "eager": ",",
    "blocking": ",",
    "share_links": ",",
    "recompute": ":",
    "offload": ":",
    "offload_modules": ",",
    "replicas": ",",
    "adjacent_replicas": ",",
    "overlap_param_gather": ",",
    "tensor": ",",
    "context": ",",
    "cp_comm_type": ",",
    "experts": ",",
    "loss": ",",
    "sequence_parallel": ",",
    "activation_func_fp8_input_store": ",",
    "framework": ",",
    "optimizer": ",",
    "optimizer_implementation": ",",
    "main_grads_dtype": ",",
    "main_params_dtype": ",",
    "exp_avg_dtype": ",",
    "exp_avg_sq_dtype": ",",
    "fp8_param_gather": ",",
    "zero": ",",
    "reduce": ",",
    "sync": ",",
    "objective": ",",
    "samples": ",",
    "jitter": ",",
    "straggler": "",
    "slow_link": "",
    "output": ",",
    "to": ",",
    "force": ",",
}


def search(
    *,
    time_limit: Value = None,
    moves: Value = None,
    seed: Value = None,
    jobs: Value = None,
    joint: Flag = None,
    from_: Value = None,
    devices: Value = None,
    microbatches: Value = None,
    chunks: Value = None,
    slices: Value = None,
    attention_exchange: Flag = None,
    serve: Value = None,
    prompt: Value = None,
    chunk: Value = None,
    lengths: Value = None,
    microbatch_order: Value = None,
    layout: Value = None,
    placement: Value = None,
    microbatch_size: Value = None,
    model: Value = None,
    precision: Value = None,
    sequence: Value = None,
    images: Value = None,
    costs_from: Value = None,
    db: Value = None,
    profile: Value = None,
    costs: Value = None,
    cluster: Value = None,
    bandwidth_factor: Value = None,
    network_factor: Value = None,
    latency_factor: Value = None,
    cuda_graphs: Value = None,
    tp_comm_overlap: Flag = None,
    moe_token_dispatcher_type: Value = None,
    speed: Value = None,
    overlap_slowdown: Value = None,
    overlap_waiting: Flag = None,
    ready_order: Value = None,
    memory_limit: Value = None,
    comm: Value = None,
    comm_order: Value = None,
    eager: Value = None,
    blocking: Flag = None,
    share_links: Flag = None,
    recompute: Value = None,
    offload: Value = None,
    offload_modules: Value = None,
    replicas: Value = None,
    adjacent_replicas: Flag = None,
    overlap_param_gather: Flag = None,
    tensor: Value = None,
    context: Value = None,
    cp_comm_type: Value = None,
    experts: Value = None,
    loss: Value = None,
    sequence_parallel: Flag = None,
    activation_func_fp8_input_store: Flag = None,
    framework: Value = None,
    optimizer: Value = None,
    optimizer_implementation: Value = None,
    main_grads_dtype: Value = None,
    main_params_dtype: Value = None,
    exp_avg_dtype: Value = None,
    exp_avg_sq_dtype: Value = None,
    fp8_param_gather: Flag = None,
    zero: Value = None,
    reduce: Value = None,
    sync: Value = None,
    objective: Value = None,
    samples: Value = None,
    jitter: Value = None,
    straggler: Value = None,
    slow_link: Value = None,
    output: Value = None,
    to: Value = None,
    force: Flag = None,
) -> Result[SearchResult]:
    """Finds the best schedule for given costs and memory, and says how far from optimal it can be.

    time_limit: How long to search, after all published schedules were tried [default: 10s]
    moves: Search this number of moves per thread, in place of a time: the result depends on seed and jobs alone
        [default: as many as the time allows]
    seed: Seed of the random choices [default: 1]
    jobs: Threads [default: one per processor]
    joint: Try up to 4 stages per device, or slices of a microbatch, too. Half of the time then improves the
        best rows of one and of two copies: stages change what they offload, and what all or some of their
        microbatches recompute. Without --layout layers move to neighbours. Without --placement stages move to
        other devices (without -v also more to one than to another). Not with --lengths
    from_: Take the setting of a launch: a script, arguments, log or YAML of Megatron-LM, TOML or words of
        torchtitan, JSON of DeepSpeed, or a config.json; other options win over it [default: none]
    devices: Number of devices (pipeline ranks) [default: that of a schedule file; families need it]
    microbatches: Microbatches per iteration [default: that of a schedule file; families need it]
    chunks: Stages per device [default: the family's]
    slices: Slices of each sequence: Q of equal length; with even-work, Q whose F takes the same time, later
        ones shorter; or so many tokens each [default: the family's; a search's: 1]
    attention_exchange: Devices share the attention of modelled slices, so that all of them take the mean time
        (SlimPipe, arXiv 2504.14519); ops hide its messages
    serve: prefill: forwards alone, which take prompts in chunk after chunk; without decoding. none: training
        [default: none]
    prompt: Prompts of --serve: one of so many tokens, or several one after the other; -m, if it is more,
        repeats them [default: none]
    chunk: Chunks of each prompt: of so many tokens, the last size for all that follow; or N whose F takes the
        same time, later ones shorter [default: none]
    lengths: Lengths of the microbatches: a CSV with one line for each, of tokens and images per sequence, or of
        factors on the costs (factor, or f, b, w, c, act, msg). Not with search --joint [default: all are alike]
    microbatch_order: Order of the microbatches of --lengths: given, ascending, descending or best (for each
        schedule) [default: given]
    layout: Stages of the model: a string as Megatron-LM takes it (Et*3|(tt|)*29,m|L) or a file with one, even
        (even:first=N:last=N, even:embedding:loss), or best, whose slowest stage is the fastest [default: the
        better one of best and even; measured costs need the stages of best]
    placement: Only schedules of this placement: loop, V, wave, bidirectional, or auto for any [default: auto]
    microbatch_size: Sequences per microbatch, with as many microbatches as keep the batch; auto tries powers of
        two [default: the model's]
    model: Model description or its name (tiny-gpt) [default: none]
    precision: Number format of the model: fp32, fp16, bf16, fp8, fp8-block, mxfp8 or nvfp4; the cluster's
        peak_flops does not change [default: its own]
    sequence: Tokens per sequence in place of the model's [default: the model's]
    images: Images of each sequence, which the model's encoder turns into tokens of it [default: the model's]
    costs_from: Costs of a run: a timeline, a trace, a folder with one trace per rank, or the log of Megatron-
        LM's timers. With several runs (it may be repeated, or has ':' between paths) one adds costs that
        another lacks. T is the time of an iteration without the profiler; the profiler's part is then taken
        out. With --model, a BW that no run splits is split into B and W by their operations. With --cluster and
        --model, transfers, all-reduces and memory are those of the model on the cluster [default: none]
    db: Measured costs [default: none]
    profile: Profile in the database [default: the only one]
    costs: Costs of a device's whole share, e.g. f=1ms,b=1ms,w=1ms,c=0,o=0,act=2MiB,wact=1MiB,weights=0, or
        lists of one value per stage: f=1ms:1.2ms:... [default: none]
    cluster: Cluster description or its name [default: none]
    bandwidth_factor: Multiplies the speed of links and network; given and measured transfers and all-reduces
        take 1 / FACTOR of their time [default: 1]
    network_factor: Multiplies the speed of the network between the nodes of --cluster alone; NVLink and other
        links stay [default: 1]
    latency_factor: Multiplies the latencies of links and network of --cluster [default: 1]
    cuda_graphs: Kernels of --cluster that do not wait for the host to launch them: none, attn (all but experts)
        or full_iteration [default: none]
    tp_comm_overlap: Products hide the cluster's tensor_overlap of the all-reduces of --tensor
    moe_token_dispatcher_type: What brings tokens to the experts of --experts: alltoall, deepep or hybridep
        [default: alltoall]
    speed: Speed of all devices, or of each; at 0.8 an op takes 1 / 0.8 of its cost [default: 1]
    overlap_slowdown: Factor on the time of ops while their device sends or receives, 1 to 8 [default: 1]
    overlap_waiting: Sends and receives also slow ops down while they wait, as NCCL's kernels do
    ready_order: Treats the order as a hint: a device starts the first of its next WINDOW ops that is ready
        [default: none]
    memory_limit: Memory of a device, or of each [default: the cluster's]
    comm: How transfers share channels: latency (transfers never queue), direction (one in-order channel for
        each pair of devices and direction), pair (one in-order channel for each pair of devices, as NCCL's
        2-rank communicators) or rank (one in-order channel for each device) [default: latency]
    comm_order: Where receives are posted: asap (as PyTorch lowers), deferred (right before the op that needs
        them) or planned (for these costs and channels) [default: as a torch-comms file says, else asap]
    eager: Messages up to this size do not wait for their receiver [default: 0]
    blocking: Sends and receives occupy their devices
    share_links: Transfers that run at the same time share the links of --cluster fairly
    recompute: Part of a forward that the backward computes again: none, modules of layers (core_attn, also
        called selective, layernorm, mla_up_proj, moe_act, moe, mlp, shared_experts, joined by +), full,
        full:layers=N (the first N of each stage) or full:uniform=N (inputs of groups of N are kept), of all
        stages or of each [default: none]
    offload: Part of the activations that moves to the host, 0 to 1, of all stages or of each [default: 0]
    offload_modules: Modules whose inputs move to the host: attn_norm, qkv_linear, core_attn, attn_proj,
        mlp_norm, expert_fc1, moe_act [default: none]
    replicas: Data-parallel copies of the pipeline [default: 1]
    adjacent_replicas: Replicas of a device are neighbours, as Megatron-LM places them [default: neighbours of a
        pipeline are]
    overlap_param_gather: Forwards of the next step hide the gather of the weights after --zero 1 and 2
    tensor: GPUs of a device, which share its layers by tensor and sequence parallelism within a node [default:
        1]
    context: Groups of --tensor GPUs in a device that share each sequence (context parallelism) [default: 1]
    cp_comm_type: How the groups of --context exchange what attention needs: all_gather (keys and values, before
        it), p2p (the same in a ring that attention hides, Megatron-LM's default) or a2a (heads for tokens)
        [default: all_gather]
    experts: GPUs of a device and its replicas that share the experts (expert parallelism) [default: 1]
    loss: What is done with the logits: whole keeps them; fused keeps none and computes them again (Megatron-
        LM's linear fusion of cross-entropy); chunked has an eighth at a time, with their gradients (torchtitan,
        Liger) [default: the model's]
    sequence_parallel: GPUs of --tensor share each sequence outside the matrices, too, also where the launch or
        the model says that they do not [default: the model's]
    activation_func_fp8_input_store: Forwards keep the inputs of SwiGLU in 8 bits [default: the model's]
    framework: Framework whose use of memory is counted: none (formulas only), megatron, megatron-bridge (its
        performance recipes: gradients in bf16, fp8 and mxfp8 weights alone) or deepspeed [default: the model's;
        megatron where the cluster's file states a datasheet's values alone]
    optimizer: adam, or muon: of the matrices of layers, with adam of all else [default: the model's]
    optimizer_implementation: fused, or PyTorch's foreach, which takes 4 bytes more for each parameter that a
        GPU steps, while it does [default: the model's]
    main_grads_dtype: Format in which gradients are added up and reduced: fp32, bf16, fp16, fp8 [default: the
        framework's]
    main_params_dtype: Format of the weights that the optimizer updates [default: the framework's]
    exp_avg_dtype: Format of Adam's first moment, or of Muon's momentum [default: the framework's]
    exp_avg_sq_dtype: Format of Adam's second moment [default: the framework's]
    fp8_param_gather: Weights of products are stored in the number format of the products alone [default: the
        framework's]
    zero: Stage of ZeRO. The replicas share out, at 0, nothing; at 1, the optimizer state; at 2, gradients too,
        as PyTorch's pipelines do: whole until their stage's last backward, so that time and memory are those of
        1; at 3, the weights, gathered for three stages at a time (FSDP) [default: 1 for modelled costs of
        several replicas or contexts, else 0]
    reduce: All-reduce of the gradients: overlapped with the ops that the device still has to run, or exposed
        after them [default: overlapped]
    sync: Synchronisation at the optimizer: global (all devices meet) or bypass (each device steps and goes on)
        [default: global]
    objective: What a good schedule makes small: the iteration time at the costs as they are, or its mean or p90
        over samples of varying costs [default: time]
    samples: Samples of the costs for --objective, the same for all schedules [default: 64]
    jitter: Relative standard deviation of every op and transfer, e.g. 0.05; measured: that of the samples in
        --db [default: none]
    straggler: A device whose ops, O included, take FACTOR times as long, in this part of the iterations, 1
        unless given; may be repeated [default: none]
    slow_link: Two devices whose transfers take FACTOR times as long in both directions (if their link fails:
        the detour's FACTOR); may be repeated [default: none]
    output: Write the best schedule [default: none]
    to: Print only the flags or keys with which megatron (HybridModel of Megatron-LM 0.18 and later, whose
        pattern says units and stages), megatron-gpt (GPTModel of 0.16 to 0.19: a layout string), torchtitan,
        torchtitan-0.2 or deepspeed run it (plan: with --explain RANK; else the rows that it runs stand first);
        counts memory as that framework does [default: none]
    force: With --to: also where memory does not suffice
    """
    options = _words(_SEARCH, locals())
    return _ask(SearchResult, "search", [], options)


_PLAN: dict[str, str] = {
    "jobs": ",",
    "from_": ",",
    "gpus": ",",
    "target_step": ",",
    "tokens": ",",
    "days": ",",
    "global_batch": ",",
    "schedule": ",",
    "model": ",",
    "precision": ",",
    "sequence": ",",
    "db": ",",
    "profile": ",",
    "cluster": ",",
    "memory_limit": ",",
    "reserve": ",",
    "cuda_graphs": ",",
    "tp_comm_overlap": ",",
    "moe_token_dispatcher_type": ",",
    "tensor": ",",
    "context": ",",
    "experts": ",",
    "zero": ",",
    "overlap_param_gather": ",",
    "cp_comm_type": ",",
    "sequence_parallel": ",",
    "activation_func_fp8_input_store": ",",
    "framework": ",",
    "optimizer": ",",
    "optimizer_implementation": ",",
    "main_grads_dtype": ",",
    "main_params_dtype": ",",
    "exp_avg_dtype": ",",
    "exp_avg_sq_dtype": ",",
    "fp8_param_gather": ",",
    "reduce": ",",
    "price": ",",
    "top": ",",
    "every": ",",
    "explain": ",",
    "to": ",",
    "force": ",",
}


def plan(
    *,
    jobs: Value = None,
    from_: Value = None,
    gpus: Value = None,
    target_step: Value = None,
    tokens: Value = None,
    days: Value = None,
    global_batch: Value = None,
    schedule: Value = None,
    model: Value = None,
    precision: Value = None,
    sequence: Value = None,
    db: Value = None,
    profile: Value = None,
    cluster: Value = None,
    memory_limit: Value = None,
    reserve: Value = None,
    cuda_graphs: Value = None,
    tp_comm_overlap: Flag = None,
    moe_token_dispatcher_type: Value = None,
    tensor: Value = None,
    context: Value = None,
    experts: Value = None,
    zero: Value = None,
    overlap_param_gather: Flag = None,
    cp_comm_type: Value = None,
    sequence_parallel: Flag = None,
    activation_func_fp8_input_store: Flag = None,
    framework: Value = None,
    optimizer: Value = None,
    optimizer_implementation: Value = None,
    main_grads_dtype: Value = None,
    main_params_dtype: Value = None,
    exp_avg_dtype: Value = None,
    exp_avg_sq_dtype: Value = None,
    fp8_param_gather: Flag = None,
    reduce: Value = None,
    price: Value = None,
    top: Value = None,
    every: Flag = None,
    explain: Value = None,
    to: Value = None,
    force: Flag = None,
) -> Result[Plan]:
    """Finds the fastest settings to train a model on a number of GPUs within memory. All simulated.

    jobs: Threads [default: one per processor]
    from_: Take the setting of a launch: a script, arguments, log or YAML of Megatron-LM, TOML or words of
        torchtitan, JSON of DeepSpeed, or a config.json; other options win over it [default: none]
    gpus: GPUs, p times t times c times d; several numbers are compared [default: all of the cluster; the fewest
        with --target-step or --days]
    target_step: Find the fewest GPUs on which a step takes at most T [default: none]
    tokens: Tokens of the whole training, 15T or 300B (B: 10^9): print the days that it takes [default: none]
    days: Find the fewest GPUs that train --tokens in so many days [default: none]
    global_batch: Sequences per step, over all replicas [required]
    schedule: Only these families, or all [default: all synchronous ones]
    model: Model description or its name (tiny-gpt) [default: none]
    precision: Number format of the model: fp32, fp16, bf16, fp8, fp8-block, mxfp8 or nvfp4; the cluster's
        peak_flops does not change [default: its own]
    sequence: Tokens per sequence in place of the model's [default: the model's]
    db: Measured costs [default: none]
    profile: Profile in the database [default: the only one]
    cluster: Cluster descriptions or their names; memory and peak rate come from them, and without --db all
        costs. Several are compared [required]
    memory_limit: Memory of a GPU [default: the cluster's]
    reserve: Part of this memory that stays free: for driver and NCCL (5 GB, at most a sixteenth; nothing where
        the framework counts them), and for fragmentation and errors of prediction (a sixteenth) [default: both
        parts of the cluster's memory; nothing of --memory-limit]
    cuda_graphs: Kernels of --cluster that do not wait for the host to launch them: none, attn (all but experts)
        or full_iteration [default: none]
    tp_comm_overlap: Products hide the cluster's tensor_overlap of the all-reduces of --tensor
    moe_token_dispatcher_type: What brings tokens to the experts of --experts: alltoall, deepep or hybridep
        [default: alltoall]
    tensor: GPUs of a device [default: 1, 2, 4 and 8, within a node]
    context: Groups of --tensor GPUs that share each sequence [default: 1, and more where sequences are long]
    experts: GPUs that share the experts [default: 1, 8, 16, 32 and 64, as the experts allow]
    zero: Stage of ZeRO. The replicas share out, at 0, nothing; at 1, the optimizer state; at 2, gradients too;
        at 3, state and weights (FSDP) [default: 1 for modelled costs of several replicas or contexts, else 0]
    overlap_param_gather: Forwards of the next step hide the gather of the weights after --zero 1 and 2
    cp_comm_type: How the groups of --context exchange what attention needs: all_gather (keys and values, before
        it), p2p (the same in a ring that attention hides, Megatron-LM's default) or a2a (heads for tokens)
        [default: all_gather]
    sequence_parallel: GPUs of --tensor share each sequence outside the matrices, too, also where the launch or
        the model says that they do not [default: the model's]
    activation_func_fp8_input_store: Forwards keep the inputs of SwiGLU in 8 bits [default: the model's]
    framework: Framework whose use of memory is counted: none (formulas only), megatron, megatron-bridge (its
        performance recipes: gradients in bf16, fp8 and mxfp8 weights alone) or deepspeed [default: the model's;
        megatron where the cluster's file states a datasheet's values alone]
    optimizer: adam, or muon: of the matrices of layers, with adam of all else [default: the model's]
    optimizer_implementation: fused, or PyTorch's foreach, which takes 4 bytes more for each parameter that a
        GPU steps, while it does [default: the model's]
    main_grads_dtype: Format in which gradients are added up and reduced: fp32, bf16, fp16, fp8 [default: the
        framework's]
    main_params_dtype: Format of the weights that the optimizer updates [default: the framework's]
    exp_avg_dtype: Format of Adam's first moment, or of Muon's momentum [default: the framework's]
    exp_avg_sq_dtype: Format of Adam's second moment [default: the framework's]
    fp8_param_gather: Weights of products are stored in the number format of the products alone [default: the
        framework's]
    reduce: All-reduce of the gradients: overlapped with the ops that the device still has to run, or exposed
        after them [default: overlapped]
    price: Price of a GPU per hour, 2.1/h for all or h100-80gb=2.1/h,h200-141gb=3.2/h: print money, and compare
        by it [default: none]
    top: Number of layouts to print, the best first [default: 10; 1 of each cluster and number of GPUs where
        several are compared, or of the fewest]
    every: Print every setting of a layout (p, t, c, e, d), not only the fastest
    explain: Print the command line that predicts the layout of this rank again [default: none]
    to: Print only the flags or keys with which megatron (HybridModel of Megatron-LM 0.18 and later, whose
        pattern says units and stages), megatron-gpt (GPTModel of 0.16 to 0.19: a layout string), torchtitan,
        torchtitan-0.2 or deepspeed run it (plan: with --explain RANK; else the rows that it runs stand first);
        counts memory as that framework does [default: none]
    force: With --to: also where memory does not suffice
    """
    options = _words(_PLAN, locals())
    return _ask(Plan, "plan", [], options)


_ADVISE: dict[str, str] = {
    "jobs": ",",
    "from_": ",",
    "gpus": ",",
    "schedule": ",",
    "devices": ",",
    "microbatches": ",",
    "chunks": ",",
    "slices": ":",
    "attention_exchange": ",",
    "serve": ",",
    "prompt": ":",
    "chunk": ":",
    "group": ",",
    "defer_head": ",",
    "lengths": ",",
    "microbatch_order": ",",
    "layout": ",",
    "placement": ",",
    "microbatch_size": ",",
    "model": ",",
    "precision": ",",
    "sequence": ",",
    "images": ",",
    "costs_from": "",
    "db": ",",
    "profile": ",",
    "costs": ",",
    "cluster": ",",
    "bandwidth_factor": ",",
    "network_factor": ",",
    "latency_factor": ",",
    "cuda_graphs": ",",
    "tp_comm_overlap": ",",
    "moe_token_dispatcher_type": ",",
    "speed": ":",
    "overlap_slowdown": ",",
    "overlap_waiting": ",",
    "ready_order": ",",
    "memory_limit": ":",
    "comm": ",",
    "comm_order": ",",
    "eager": ",",
    "blocking": ",",
    "share_links": ",",
    "recompute": ":",
    "offload": ":",
    "offload_modules": ",",
    "replicas": ",",
    "adjacent_replicas": ",",
    "overlap_param_gather": ",",
    "tensor": ",",
    "context": ",",
    "cp_comm_type": ",",
    "experts": ",",
    "loss": ",",
    "sequence_parallel": ",",
    "activation_func_fp8_input_store": ",",
    "framework": ",",
    "optimizer": ",",
    "optimizer_implementation": ",",
    "main_grads_dtype": ",",
    "main_params_dtype": ",",
    "exp_avg_dtype": ",",
    "exp_avg_sq_dtype": ",",
    "fp8_param_gather": ",",
    "zero": ",",
    "reduce": ",",
    "sync": ",",
    "top": ",",
    "every": ",",
    "change": ",",
    "write": ",",
}


def advise(
    launch: Value,
    *,
    jobs: Value = None,
    from_: Value = None,
    gpus: Value = None,
    schedule: Value = None,
    devices: Value = None,
    microbatches: Value = None,
    chunks: Value = None,
    slices: Value = None,
    attention_exchange: Flag = None,
    serve: Value = None,
    prompt: Value = None,
    chunk: Value = None,
    group: Value = None,
    defer_head: Value = None,
    lengths: Value = None,
    microbatch_order: Value = None,
    layout: Value = None,
    placement: Value = None,
    microbatch_size: Value = None,
    model: Value = None,
    precision: Value = None,
    sequence: Value = None,
    images: Value = None,
    costs_from: Value = None,
    db: Value = None,
    profile: Value = None,
    costs: Value = None,
    cluster: Value = None,
    bandwidth_factor: Value = None,
    network_factor: Value = None,
    latency_factor: Value = None,
    cuda_graphs: Value = None,
    tp_comm_overlap: Flag = None,
    moe_token_dispatcher_type: Value = None,
    speed: Value = None,
    overlap_slowdown: Value = None,
    overlap_waiting: Flag = None,
    ready_order: Value = None,
    memory_limit: Value = None,
    comm: Value = None,
    comm_order: Value = None,
    eager: Value = None,
    blocking: Flag = None,
    share_links: Flag = None,
    recompute: Value = None,
    offload: Value = None,
    offload_modules: Value = None,
    replicas: Value = None,
    adjacent_replicas: Flag = None,
    overlap_param_gather: Flag = None,
    tensor: Value = None,
    context: Value = None,
    cp_comm_type: Value = None,
    experts: Value = None,
    loss: Value = None,
    sequence_parallel: Flag = None,
    activation_func_fp8_input_store: Flag = None,
    framework: Value = None,
    optimizer: Value = None,
    optimizer_implementation: Value = None,
    main_grads_dtype: Value = None,
    main_params_dtype: Value = None,
    exp_avg_dtype: Value = None,
    exp_avg_sq_dtype: Value = None,
    fp8_param_gather: Flag = None,
    zero: Value = None,
    reduce: Value = None,
    sync: Value = None,
    top: Value = None,
    every: Flag = None,
    change: Value = None,
    write: Value = None,
) -> Result[Row]:
    """Says what to change in a launch so that it is faster, or fits memory. All simulated.

    jobs: Threads; their number changes no figure [default: one per processor]
    from_: Take the setting of a launch: a script, arguments, log or YAML of Megatron-LM, TOML or words of
        torchtitan, JSON of DeepSpeed, or a config.json; other options win over it [default: none]
    gpus: GPUs, where the file does not say their number [default: the file's]
    schedule: Family that the launch runs [default: the launch's]
    devices: Number of devices (pipeline ranks) [default: that of a schedule file; families need it]
    microbatches: Microbatches per iteration [default: that of a schedule file; families need it]
    chunks: Stages per device [default: the family's]
    slices: Slices of each sequence: Q of equal length; with even-work, Q whose F takes the same time, later
        ones shorter; or so many tokens each [default: the family's; a search's: 1]
    attention_exchange: Devices share the attention of modelled slices, so that all of them take the mean time
        (SlimPipe, arXiv 2504.14519); ops hide its messages
    serve: prefill: forwards alone, which take prompts in chunk after chunk; without decoding. none: training
        [default: none]
    prompt: Prompts of --serve: one of so many tokens, or several one after the other; -m, if it is more,
        repeats them [default: none]
    chunk: Chunks of each prompt: of so many tokens, the last size for all that follow; or N whose F takes the
        same time, later ones shorter [default: none]
    group: Microbatches that pass a chunk in a row [default: the family's]
    defer_head: The last stage keeps W of its first N microbatches for the drain [default: 0]
    lengths: Lengths of the microbatches: a CSV with one line for each, of tokens and images per sequence, or of
        factors on the costs (factor, or f, b, w, c, act, msg). Not with search --joint [default: all are alike]
    microbatch_order: Order of the microbatches of --lengths: given, ascending, descending or best (for each
        schedule) [default: given]
    layout: Stages of the model: a string as Megatron-LM takes it (Et*3|(tt|)*29,m|L) or a file with one, even
        (even:first=N:last=N, even:embedding:loss), or best, whose slowest stage is the fastest [default: the
        better one of best and even; measured costs need the stages of best]
    placement: Only schedules of this placement: loop, V, wave, bidirectional, or auto for any [default: auto]
    microbatch_size: Sequences per microbatch in place of the model's, for modelled costs [default: the model's]
    model: Model description or its name (tiny-gpt) [default: none]
    precision: Number format of the model: fp32, fp16, bf16, fp8, fp8-block, mxfp8 or nvfp4; the cluster's
        peak_flops does not change [default: its own]
    sequence: Tokens per sequence in place of the model's [default: the model's]
    images: Images of each sequence, which the model's encoder turns into tokens of it [default: the model's]
    costs_from: Costs of a run: a timeline, a trace, a folder with one trace per rank, or the log of Megatron-
        LM's timers. With several runs (it may be repeated, or has ':' between paths) one adds costs that
        another lacks. T is the time of an iteration without the profiler; the profiler's part is then taken
        out. With --model, a BW that no run splits is split into B and W by their operations. With --cluster and
        --model, transfers, all-reduces and memory are those of the model on the cluster [default: none]
    db: Measured costs [default: none]
    profile: Profile in the database [default: the only one]
    costs: Costs of a device's whole share, e.g. f=1ms,b=1ms,w=1ms,c=0,o=0,act=2MiB,wact=1MiB,weights=0, or
        lists of one value per stage: f=1ms:1.2ms:... [default: none]
    cluster: Cluster description or its name [default: none]
    bandwidth_factor: Multiplies the speed of links and network; given and measured transfers and all-reduces
        take 1 / FACTOR of their time [default: 1]
    network_factor: Multiplies the speed of the network between the nodes of --cluster alone; NVLink and other
        links stay [default: 1]
    latency_factor: Multiplies the latencies of links and network of --cluster [default: 1]
    cuda_graphs: Kernels of --cluster that do not wait for the host to launch them: none, attn (all but experts)
        or full_iteration [default: none]
    tp_comm_overlap: Products hide the cluster's tensor_overlap of the all-reduces of --tensor
    moe_token_dispatcher_type: What brings tokens to the experts of --experts: alltoall, deepep or hybridep
        [default: alltoall]
    speed: Speed of all devices, or of each; at 0.8 an op takes 1 / 0.8 of its cost [default: 1]
    overlap_slowdown: Factor on the time of ops while their device sends or receives, 1 to 8 [default: 1]
    overlap_waiting: Sends and receives also slow ops down while they wait, as NCCL's kernels do
    ready_order: Treats the order as a hint: a device starts the first of its next WINDOW ops that is ready
        [default: none]
    memory_limit: Memory of a device, or of each [default: the cluster's]
    comm: How transfers share channels: latency (transfers never queue), direction (one in-order channel for
        each pair of devices and direction), pair (one in-order channel for each pair of devices, as NCCL's
        2-rank communicators) or rank (one in-order channel for each device) [default: latency]
    comm_order: Where receives are posted: asap (as PyTorch lowers), deferred (right before the op that needs
        them) or planned (for these costs and channels) [default: as a torch-comms file says, else asap]
    eager: Messages up to this size do not wait for their receiver [default: 0]
    blocking: Sends and receives occupy their devices
    share_links: Transfers that run at the same time share the links of --cluster fairly
    recompute: Part of a forward that the backward computes again: none, modules of layers (core_attn, also
        called selective, layernorm, mla_up_proj, moe_act, moe, mlp, shared_experts, joined by +), full,
        full:layers=N (the first N of each stage) or full:uniform=N (inputs of groups of N are kept), of all
        stages or of each [default: none]
    offload: Part of the activations that moves to the host, 0 to 1, of all stages or of each [default: 0]
    offload_modules: Modules whose inputs move to the host: attn_norm, qkv_linear, core_attn, attn_proj,
        mlp_norm, expert_fc1, moe_act [default: none]
    replicas: Data-parallel copies of the pipeline [default: 1]
    adjacent_replicas: Replicas of a device are neighbours, as Megatron-LM places them [default: neighbours of a
        pipeline are]
    overlap_param_gather: Forwards of the next step hide the gather of the weights after --zero 1 and 2
    tensor: GPUs of a device, which share its layers by tensor and sequence parallelism within a node [default:
        1]
    context: Groups of --tensor GPUs in a device that share each sequence (context parallelism) [default: 1]
    cp_comm_type: How the groups of --context exchange what attention needs: all_gather (keys and values, before
        it), p2p (the same in a ring that attention hides, Megatron-LM's default) or a2a (heads for tokens)
        [default: all_gather]
    experts: GPUs of a device and its replicas that share the experts (expert parallelism) [default: 1]
    loss: What is done with the logits: whole keeps them; fused keeps none and computes them again (Megatron-
        LM's linear fusion of cross-entropy); chunked has an eighth at a time, with their gradients (torchtitan,
        Liger) [default: the model's]
    sequence_parallel: GPUs of --tensor share each sequence outside the matrices, too, also where the launch or
        the model says that they do not [default: the model's]
    activation_func_fp8_input_store: Forwards keep the inputs of SwiGLU in 8 bits [default: the model's]
    framework: Framework whose use of memory is counted: none (formulas only), megatron, megatron-bridge (its
        performance recipes: gradients in bf16, fp8 and mxfp8 weights alone) or deepspeed [default: the model's;
        megatron where the cluster's file states a datasheet's values alone]
    optimizer: adam, or muon: of the matrices of layers, with adam of all else [default: the model's]
    optimizer_implementation: fused, or PyTorch's foreach, which takes 4 bytes more for each parameter that a
        GPU steps, while it does [default: the model's]
    main_grads_dtype: Format in which gradients are added up and reduced: fp32, bf16, fp16, fp8 [default: the
        framework's]
    main_params_dtype: Format of the weights that the optimizer updates [default: the framework's]
    exp_avg_dtype: Format of Adam's first moment, or of Muon's momentum [default: the framework's]
    exp_avg_sq_dtype: Format of Adam's second moment [default: the framework's]
    fp8_param_gather: Weights of products are stored in the number format of the products alone [default: the
        framework's]
    zero: Stage of ZeRO. The replicas share out, at 0, nothing; at 1, the optimizer state; at 2, gradients too,
        as PyTorch's pipelines do: whole until their stage's last backward, so that time and memory are those of
        1; at 3, the weights, gathered for three stages at a time (FSDP) [default: 1 for modelled costs of
        several replicas or contexts, else 0]
    reduce: All-reduce of the gradients: overlapped with the ops that the device still has to run, or exposed
        after them [default: overlapped]
    sync: Synchronisation at the optimizer: global (all devices meet) or bypass (each device steps and goes on)
        [default: global]
    top: Changes listed [default: 6]
    every: List all values of a change, not only the best one
    change: Print the diff of this row alone, and write that [default: the best few together]
    write: Write the changed launch there [default: none]
    """
    options = _words(_ADVISE, locals())
    return _ask(Row, "advise", [*_texts([launch])], options)


_PARTITION: dict[str, str] = {
    "algorithm": ",",
    "from_": ",",
    "schedule": ",",
    "devices": ",",
    "microbatches": ",",
    "chunks": ",",
    "slices": ":",
    "group": ",",
    "defer_head": ",",
    "placement": ",",
    "layers": ",",
    "bandwidth": ",",
    "model": ",",
    "precision": ",",
    "sequence": ",",
    "images": ",",
    "costs_from": "",
    "db": ",",
    "profile": ",",
    "costs": ",",
    "cluster": ",",
    "bandwidth_factor": ",",
    "network_factor": ",",
    "latency_factor": ",",
    "cuda_graphs": ",",
    "tp_comm_overlap": ",",
    "moe_token_dispatcher_type": ",",
    "speed": ":",
    "memory_limit": ":",
    "comm_order": ",",
    "eager": ",",
    "recompute": ":",
    "tensor": ",",
    "context": ",",
    "cp_comm_type": ",",
    "loss": ",",
    "sequence_parallel": ",",
    "reduce": ",",
    "sync": ",",
    "print_costs": ",",
    "to": ",",
}


def partition(
    *,
    algorithm: Value = None,
    from_: Value = None,
    schedule: Value = None,
    devices: Value = None,
    microbatches: Value = None,
    chunks: Value = None,
    slices: Value = None,
    group: Value = None,
    defer_head: Value = None,
    placement: Value = None,
    layers: Value = None,
    bandwidth: Value = None,
    model: Value = None,
    precision: Value = None,
    sequence: Value = None,
    images: Value = None,
    costs_from: Value = None,
    db: Value = None,
    profile: Value = None,
    costs: Value = None,
    cluster: Value = None,
    bandwidth_factor: Value = None,
    network_factor: Value = None,
    latency_factor: Value = None,
    cuda_graphs: Value = None,
    tp_comm_overlap: Flag = None,
    moe_token_dispatcher_type: Value = None,
    speed: Value = None,
    memory_limit: Value = None,
    comm_order: Value = None,
    eager: Value = None,
    recompute: Value = None,
    tensor: Value = None,
    context: Value = None,
    cp_comm_type: Value = None,
    loss: Value = None,
    sequence_parallel: Flag = None,
    reduce: Value = None,
    sync: Value = None,
    print_costs: Flag = None,
    to: Value = None,
) -> Result[Row]:
    """Cuts the layers of a model into stages, by one algorithm or by all of them.

    algorithm: An algorithm, or all [default: bottleneck]
    from_: Take the setting of a launch: a script, arguments, log or YAML of Megatron-LM, TOML or words of
        torchtitan, JSON of DeepSpeed, or a config.json; other options win over it [default: none]
    schedule: Family to simulate; algorithm schedule cuts for it [default: none]
    devices: Number of devices (pipeline ranks) [default: that of a schedule file; families need it]
    microbatches: Microbatches per iteration [default: that of a schedule file; families need it]
    chunks: Stages per device [default: the family's]
    slices: Slices of each sequence: Q of equal length; with even-work, Q whose F takes the same time, later
        ones shorter; or so many tokens each [default: the family's; a search's: 1]
    group: Microbatches that pass a chunk in a row [default: the family's]
    defer_head: The last stage keeps W of its first N microbatches for the drain [default: 0]
    placement: Only schedules of this placement: loop, V, wave, bidirectional, or auto for any [default: auto]
    layers: Layers and their costs [default: none]
    bandwidth: Rate between two neighbours, e.g. 10GB/s [default: none]
    model: Model description or its name (tiny-gpt) [default: none]
    precision: Number format of the model: fp32, fp16, bf16, fp8, fp8-block, mxfp8 or nvfp4; the cluster's
        peak_flops does not change [default: its own]
    sequence: Tokens per sequence in place of the model's [default: the model's]
    images: Images of each sequence, which the model's encoder turns into tokens of it [default: the model's]
    costs_from: Costs of a run: a timeline, a trace, a folder with one trace per rank, or the log of Megatron-
        LM's timers. With several runs (it may be repeated, or has ':' between paths) one adds costs that
        another lacks. T is the time of an iteration without the profiler; the profiler's part is then taken
        out. With --model, a BW that no run splits is split into B and W by their operations. With --cluster and
        --model, transfers, all-reduces and memory are those of the model on the cluster [default: none]
    db: Measured costs [default: none]
    profile: Profile in the database [default: the only one]
    costs: Costs of a device's whole share, e.g. f=1ms,b=1ms,w=1ms,c=0,o=0,act=2MiB,wact=1MiB,weights=0, or
        lists of one value per stage: f=1ms:1.2ms:... [default: none]
    cluster: Cluster description or its name [default: none]
    bandwidth_factor: Multiplies the speed of links and network; given and measured transfers and all-reduces
        take 1 / FACTOR of their time [default: 1]
    network_factor: Multiplies the speed of the network between the nodes of --cluster alone; NVLink and other
        links stay [default: 1]
    latency_factor: Multiplies the latencies of links and network of --cluster [default: 1]
    cuda_graphs: Kernels of --cluster that do not wait for the host to launch them: none, attn (all but experts)
        or full_iteration [default: none]
    tp_comm_overlap: Products hide the cluster's tensor_overlap of the all-reduces of --tensor
    moe_token_dispatcher_type: What brings tokens to the experts of --experts: alltoall, deepep or hybridep
        [default: alltoall]
    speed: Speed of all devices, or of each; at 0.8 an op takes 1 / 0.8 of its cost [default: 1]
    memory_limit: Memory of a device, or of each [default: the cluster's]
    comm_order: Where receives are posted: asap (as PyTorch lowers), deferred (right before the op that needs
        them) or planned (for these costs and channels) [default: as a torch-comms file says, else asap]
    eager: Messages up to this size do not wait for their receiver [default: 0]
    recompute: Part of a forward that the backward computes again: none, modules of layers (core_attn, also
        called selective, layernorm, mla_up_proj, moe_act, moe, mlp, shared_experts, joined by +), full,
        full:layers=N (the first N of each stage) or full:uniform=N (inputs of groups of N are kept), of all
        stages or of each [default: none]
    tensor: GPUs of a device, which share its layers by tensor and sequence parallelism within a node [default:
        1]
    context: Groups of --tensor GPUs in a device that share each sequence (context parallelism) [default: 1]
    cp_comm_type: How the groups of --context exchange what attention needs: all_gather (keys and values, before
        it), p2p (the same in a ring that attention hides, Megatron-LM's default) or a2a (heads for tokens)
        [default: all_gather]
    loss: What is done with the logits: whole keeps them; fused keeps none and computes them again (Megatron-
        LM's linear fusion of cross-entropy); chunked has an eighth at a time, with their gradients (torchtitan,
        Liger) [default: the model's]
    sequence_parallel: GPUs of --tensor share each sequence outside the matrices, too, also where the launch or
        the model says that they do not [default: the model's]
    reduce: All-reduce of the gradients: overlapped with the ops that the device still has to run, or exposed
        after them [default: overlapped]
    sync: Synchronisation at the optimizer: global (all devices meet) or bypass (each device steps and goes on)
        [default: global]
    print_costs: Print only the costs of the stages, as predict --costs takes them
    to: Print only what megatron, torchtitan, torchtitan-0.2 or deepspeed take for the stages of a model
        [default: none]
    """
    options = _words(_PARTITION, locals())
    return _ask(Row, "partition", [], options)


_COMPARE: dict[str, str] = {
    "tolerance": ",",
    "worst": ",",
}


def compare(
    first: Value,
    second: Value,
    *,
    tolerance: Value = None,
    worst: Value = None,
) -> Result[Row]:
    """Compares two timelines, op by op: a predicted with a measured one, two predictions or two runs, of one
    schedule or of two. Each is a timeline of pipesim, its Chrome trace, or a trace of PyTorch's profiler, Nsight
    Systems (.sqlite) or OpenTelemetry (.jsonl), or a folder with one of each rank. docs/traces.md says how to
    record them.

    tolerance: Exit with 3 when the two iteration times are further apart than this [default: none]
    worst: Ops to list, the most wrong first [default: 10]
    """
    options = _words(_COMPARE, locals())
    return _ask(Row, "compare", [*_texts([first]), *_texts([second])], options)


_DIAGNOSE: dict[str, str] = {
    "time_limit": ",",
    "from_": ",",
    "devices": ",",
    "microbatches": ",",
    "chunks": ",",
    "slices": ":",
    "attention_exchange": ",",
    "serve": ",",
    "prompt": ":",
    "chunk": ":",
    "group": ",",
    "defer_head": ",",
    "lengths": ",",
    "microbatch_order": ",",
    "layout": ",",
    "placement": ",",
    "model": ",",
    "precision": ",",
    "sequence": ",",
    "images": ",",
    "costs_from": "",
    "db": ",",
    "profile": ",",
    "costs": ",",
    "cluster": ",",
    "bandwidth_factor": ",",
    "network_factor": ",",
    "latency_factor": ",",
    "cuda_graphs": ",",
    "tp_comm_overlap": ",",
    "moe_token_dispatcher_type": ",",
    "speed": ":",
    "overlap_slowdown": ",",
    "overlap_waiting": ",",
    "ready_order": ",",
    "memory_limit": ":",
    "comm": ",",
    "comm_order": ",",
    "eager": ",",
    "blocking": ",",
    "share_links": ",",
    "recompute": ":",
    "offload": ":",
    "offload_modules": ",",
    "replicas": ",",
    "adjacent_replicas": ",",
    "overlap_param_gather": ",",
    "tensor": ",",
    "context": ",",
    "cp_comm_type": ",",
    "experts": ",",
    "loss": ",",
    "sequence_parallel": ",",
    "activation_func_fp8_input_store": ",",
    "framework": ",",
    "optimizer": ",",
    "optimizer_implementation": ",",
    "main_grads_dtype": ",",
    "main_params_dtype": ",",
    "exp_avg_dtype": ",",
    "exp_avg_sq_dtype": ",",
    "fp8_param_gather": ",",
    "zero": ",",
    "reduce": ",",
    "sync": ",",
    "output": ",",
    "title": ",",
}


def diagnose(
    *traces: Value,
    time_limit: Value = None,
    from_: Value = None,
    devices: Value = None,
    microbatches: Value = None,
    chunks: Value = None,
    slices: Value = None,
    attention_exchange: Flag = None,
    serve: Value = None,
    prompt: Value = None,
    chunk: Value = None,
    group: Value = None,
    defer_head: Value = None,
    lengths: Value = None,
    microbatch_order: Value = None,
    layout: Value = None,
    placement: Value = None,
    model: Value = None,
    precision: Value = None,
    sequence: Value = None,
    images: Value = None,
    costs_from: Value = None,
    db: Value = None,
    profile: Value = None,
    costs: Value = None,
    cluster: Value = None,
    bandwidth_factor: Value = None,
    network_factor: Value = None,
    latency_factor: Value = None,
    cuda_graphs: Value = None,
    tp_comm_overlap: Flag = None,
    moe_token_dispatcher_type: Value = None,
    speed: Value = None,
    overlap_slowdown: Value = None,
    overlap_waiting: Flag = None,
    ready_order: Value = None,
    memory_limit: Value = None,
    comm: Value = None,
    comm_order: Value = None,
    eager: Value = None,
    blocking: Flag = None,
    share_links: Flag = None,
    recompute: Value = None,
    offload: Value = None,
    offload_modules: Value = None,
    replicas: Value = None,
    adjacent_replicas: Flag = None,
    overlap_param_gather: Flag = None,
    tensor: Value = None,
    context: Value = None,
    cp_comm_type: Value = None,
    experts: Value = None,
    loss: Value = None,
    sequence_parallel: Flag = None,
    activation_func_fp8_input_store: Flag = None,
    framework: Value = None,
    optimizer: Value = None,
    optimizer_implementation: Value = None,
    main_grads_dtype: Value = None,
    main_params_dtype: Value = None,
    exp_avg_dtype: Value = None,
    exp_avg_sq_dtype: Value = None,
    fp8_param_gather: Flag = None,
    zero: Value = None,
    reduce: Value = None,
    sync: Value = None,
    output: Value = None,
    title: Value = None,
) -> Result[Row]:
    """Says where the time of a run goes and which schedule would be faster, from a few profiled steps: a timeline
    of pipesim, its Chrome trace, or a trace of PyTorch's profiler, Nsight Systems (.sqlite) or OpenTelemetry
    (.jsonl), or a folder with one of each rank. Several TRACEs are more iterations of the same run.

    time_limit: How long to search for better schedules; 0: not at all [default: 2 s]
    from_: Take the setting of a launch: a script, arguments, log or YAML of Megatron-LM, TOML or words of
        torchtitan, JSON of DeepSpeed, or a config.json; other options win over it [default: none]
    devices: Number of devices (pipeline ranks) [default: that of a schedule file; families need it]
    microbatches: Microbatches per iteration [default: that of a schedule file; families need it]
    chunks: Stages per device [default: the family's]
    slices: Slices of each sequence: Q of equal length; with even-work, Q whose F takes the same time, later
        ones shorter; or so many tokens each [default: the family's; a search's: 1]
    attention_exchange: Devices share the attention of modelled slices, so that all of them take the mean time
        (SlimPipe, arXiv 2504.14519); ops hide its messages
    serve: prefill: forwards alone, which take prompts in chunk after chunk; without decoding. none: training
        [default: none]
    prompt: Prompts of --serve: one of so many tokens, or several one after the other; -m, if it is more,
        repeats them [default: none]
    chunk: Chunks of each prompt: of so many tokens, the last size for all that follow; or N whose F takes the
        same time, later ones shorter [default: none]
    group: Microbatches that pass a chunk in a row [default: the family's]
    defer_head: The last stage keeps W of its first N microbatches for the drain [default: 0]
    lengths: Lengths of the microbatches: a CSV with one line for each, of tokens and images per sequence, or of
        factors on the costs (factor, or f, b, w, c, act, msg). Not with search --joint [default: all are alike]
    microbatch_order: Order of the microbatches of --lengths: given, ascending, descending or best (for each
        schedule) [default: given]
    layout: Stages of the model: a string as Megatron-LM takes it (Et*3|(tt|)*29,m|L) or a file with one, even
        (even:first=N:last=N, even:embedding:loss), or best, whose slowest stage is the fastest [default: the
        better one of best and even; measured costs need the stages of best]
    placement: Only schedules of this placement: loop, V, wave, bidirectional, or auto for any [default: auto]
    model: Model description or its name (tiny-gpt) [default: none]
    precision: Number format of the model: fp32, fp16, bf16, fp8, fp8-block, mxfp8 or nvfp4; the cluster's
        peak_flops does not change [default: its own]
    sequence: Tokens per sequence in place of the model's [default: the model's]
    images: Images of each sequence, which the model's encoder turns into tokens of it [default: the model's]
    costs_from: Costs of a run: a timeline, a trace, a folder with one trace per rank, or the log of Megatron-
        LM's timers. With several runs (it may be repeated, or has ':' between paths) one adds costs that
        another lacks. T is the time of an iteration without the profiler; the profiler's part is then taken
        out. With --model, a BW that no run splits is split into B and W by their operations. With --cluster and
        --model, transfers, all-reduces and memory are those of the model on the cluster [default: none]
    db: Measured costs [default: none]
    profile: Profile in the database [default: the only one]
    costs: Costs of a device's whole share, e.g. f=1ms,b=1ms,w=1ms,c=0,o=0,act=2MiB,wact=1MiB,weights=0, or
        lists of one value per stage: f=1ms:1.2ms:... [default: none]
    cluster: Cluster description or its name [default: none]
    bandwidth_factor: Multiplies the speed of links and network; given and measured transfers and all-reduces
        take 1 / FACTOR of their time [default: 1]
    network_factor: Multiplies the speed of the network between the nodes of --cluster alone; NVLink and other
        links stay [default: 1]
    latency_factor: Multiplies the latencies of links and network of --cluster [default: 1]
    cuda_graphs: Kernels of --cluster that do not wait for the host to launch them: none, attn (all but experts)
        or full_iteration [default: none]
    tp_comm_overlap: Products hide the cluster's tensor_overlap of the all-reduces of --tensor
    moe_token_dispatcher_type: What brings tokens to the experts of --experts: alltoall, deepep or hybridep
        [default: alltoall]
    speed: Speed of all devices, or of each; at 0.8 an op takes 1 / 0.8 of its cost [default: 1]
    overlap_slowdown: Factor on the time of ops while their device sends or receives, 1 to 8 [default: 1]
    overlap_waiting: Sends and receives also slow ops down while they wait, as NCCL's kernels do
    ready_order: Treats the order as a hint: a device starts the first of its next WINDOW ops that is ready
        [default: none]
    memory_limit: Memory of a device, or of each [default: the cluster's]
    comm: How transfers share channels: latency (transfers never queue), direction (one in-order channel for
        each pair of devices and direction), pair (one in-order channel for each pair of devices, as NCCL's
        2-rank communicators) or rank (one in-order channel for each device) [default: latency]
    comm_order: Where receives are posted: asap (as PyTorch lowers), deferred (right before the op that needs
        them) or planned (for these costs and channels) [default: as a torch-comms file says, else asap]
    eager: Messages up to this size do not wait for their receiver [default: 0]
    blocking: Sends and receives occupy their devices
    share_links: Transfers that run at the same time share the links of --cluster fairly
    recompute: Part of a forward that the backward computes again: none, modules of layers (core_attn, also
        called selective, layernorm, mla_up_proj, moe_act, moe, mlp, shared_experts, joined by +), full,
        full:layers=N (the first N of each stage) or full:uniform=N (inputs of groups of N are kept), of all
        stages or of each [default: none]
    offload: Part of the activations that moves to the host, 0 to 1, of all stages or of each [default: 0]
    offload_modules: Modules whose inputs move to the host: attn_norm, qkv_linear, core_attn, attn_proj,
        mlp_norm, expert_fc1, moe_act [default: none]
    replicas: Data-parallel copies of the pipeline [default: 1]
    adjacent_replicas: Replicas of a device are neighbours, as Megatron-LM places them [default: neighbours of a
        pipeline are]
    overlap_param_gather: Forwards of the next step hide the gather of the weights after --zero 1 and 2
    tensor: GPUs of a device, which share its layers by tensor and sequence parallelism within a node [default:
        1]
    context: Groups of --tensor GPUs in a device that share each sequence (context parallelism) [default: 1]
    cp_comm_type: How the groups of --context exchange what attention needs: all_gather (keys and values, before
        it), p2p (the same in a ring that attention hides, Megatron-LM's default) or a2a (heads for tokens)
        [default: all_gather]
    experts: GPUs of a device and its replicas that share the experts (expert parallelism) [default: 1]
    loss: What is done with the logits: whole keeps them; fused keeps none and computes them again (Megatron-
        LM's linear fusion of cross-entropy); chunked has an eighth at a time, with their gradients (torchtitan,
        Liger) [default: the model's]
    sequence_parallel: GPUs of --tensor share each sequence outside the matrices, too, also where the launch or
        the model says that they do not [default: the model's]
    activation_func_fp8_input_store: Forwards keep the inputs of SwiGLU in 8 bits [default: the model's]
    framework: Framework whose use of memory is counted: none (formulas only), megatron, megatron-bridge (its
        performance recipes: gradients in bf16, fp8 and mxfp8 weights alone) or deepspeed [default: the model's;
        megatron where the cluster's file states a datasheet's values alone]
    optimizer: adam, or muon: of the matrices of layers, with adam of all else [default: the model's]
    optimizer_implementation: fused, or PyTorch's foreach, which takes 4 bytes more for each parameter that a
        GPU steps, while it does [default: the model's]
    main_grads_dtype: Format in which gradients are added up and reduced: fp32, bf16, fp16, fp8 [default: the
        framework's]
    main_params_dtype: Format of the weights that the optimizer updates [default: the framework's]
    exp_avg_dtype: Format of Adam's first moment, or of Muon's momentum [default: the framework's]
    exp_avg_sq_dtype: Format of Adam's second moment [default: the framework's]
    fp8_param_gather: Weights of products are stored in the number format of the products alone [default: the
        framework's]
    zero: Stage of ZeRO. The replicas share out, at 0, nothing; at 1, the optimizer state; at 2, gradients too,
        as PyTorch's pipelines do: whole until their stage's last backward, so that time and memory are those of
        1; at 3, the weights, gathered for three stages at a time (FSDP) [default: 1 for modelled costs of
        several replicas or contexts, else 0]
    reduce: All-reduce of the gradients: overlapped with the ops that the device still has to run, or exposed
        after them [default: overlapped]
    sync: Synchronisation at the optimizer: global (all devices meet) or bypass (each device steps and goes on)
        [default: global]
    output: Write a page (.html) or a picture (.svg, .png, .pdf) in place of the text [default: none]
    title: Title of the page or picture [default: its own]
    """
    options = _words(_DIAGNOSE, locals())
    return _ask(Row, "diagnose", [*_texts(traces)], options)


_RUN_SWEEP: dict[str, str] = {
    "db": ",",
    "jobs": ",",
    "resume": ",",
    "shard": ",",
}


def run_sweep(
    spec: Value,
    *,
    db: Value = None,
    jobs: Value = None,
    resume: Flag = None,
    shard: Value = None,
) -> str:
    """Predicts all combinations of the values in a spec into a database. pipesim sweep merge OUT.db IN.db... puts
    the shards of a sweep together.

    db: Database of the results, created when missing [required]
    jobs: Threads [default: one per processor]
    resume: Predict only settings that the database lacks
    shard: Only part I, from 0 on, of N [default: all of them]
    """
    options = _words(_RUN_SWEEP, locals())
    return run("sweep", *[*_texts([spec])], *options)[1]


_PARETO: dict[str, str] = {
    "per": ",",
    "by": ",",
    "where": ",",
    "csv": ",",
    "markdown": ",",
}


def pareto(
    results: Value,
    *,
    per: Value = None,
    by: Value = None,
    where: Value = None,
    csv: Flag = None,
    markdown: Flag = None,
) -> Result[Row]:
    """Lists the settings of a sweep that nothing beats in both time and peak memory. All simulated.

    per: One answer for each value of these columns, and of bandwidth, memory limit, batch and other
        circumstances that vary; none: one for all [default: devices and these circumstances]
    by: Column that is to be small [default: sequence_ns, the time of an iteration per sequence in it]
    where: Only settings for which this holds, with = != <= >= < or >; several must all hold. Asynchronous
        schedules count with asynchronous=any or schedule=NAME [default: none]
    csv: Print comma-separated values, times in ns and sizes in bytes
    markdown: Print a Markdown table
    """
    options = _words(_PARETO, locals())
    return _ask(Row, "pareto", [*_texts([results])], options)


_BEST: dict[str, str] = {
    "memory_limit": ",",
    "top": ",",
    "per": ",",
    "by": ",",
    "where": ",",
    "csv": ",",
    "markdown": ",",
}


def best(
    results: Value,
    *,
    memory_limit: Value = None,
    top: Value = None,
    per: Value = None,
    by: Value = None,
    where: Value = None,
    csv: Flag = None,
    markdown: Flag = None,
) -> Result[Row]:
    """Lists the fastest settings of a sweep, one for each number of devices unless --per says otherwise. All
    simulated.

    memory_limit: The best within each of these [default: none]
    top: Number of settings in each group [default: 1]
    per: One answer for each value of these columns, and of bandwidth, memory limit, batch and other
        circumstances that vary; none: one for all [default: devices and these circumstances]
    by: Column that is to be small [default: sequence_ns, the time of an iteration per sequence in it]
    where: Only settings for which this holds, with = != <= >= < or >; several must all hold. Asynchronous
        schedules count with asynchronous=any or schedule=NAME [default: none]
    csv: Print comma-separated values, times in ns and sizes in bytes
    markdown: Print a Markdown table
    """
    options = _words(_BEST, locals())
    return _ask(Row, "best", [*_texts([results])], options)


_SENSITIVITY: dict[str, str] = {
    "over": ",",
    "per": ",",
    "by": ",",
    "where": ",",
    "csv": ",",
    "markdown": ",",
}


def sensitivity(
    results: Value,
    *,
    over: Value = None,
    per: Value = None,
    by: Value = None,
    where: Value = None,
    csv: Flag = None,
    markdown: Flag = None,
) -> Result[Row]:
    """Shows the fastest schedule along a column of a sweep, and where schedules break even. All simulated.

    over: Column that changes [default: microbatches]
    per: One answer for each value of these columns, and of bandwidth, memory limit, batch and other
        circumstances that vary; none: one for all [default: devices and these circumstances]
    by: Column that is to be small [default: sequence_ns, the time of an iteration per sequence in it]
    where: Only settings for which this holds, with = != <= >= < or >; several must all hold. Asynchronous
        schedules count with asynchronous=any or schedule=NAME [default: none]
    csv: Print comma-separated values, times in ns and sizes in bytes
    markdown: Print a Markdown table
    """
    options = _words(_SENSITIVITY, locals())
    return _ask(Row, "sensitivity", [*_texts([results])], options)


_MODELS: dict[str, str] = {}


def models() -> Result[Row]:
    """Lists the models that ship with pipesim, for --model, or prints the description of one."""
    options = _words(_MODELS, locals())
    return _ask(Row, "models", [], options)


_CLUSTERS: dict[str, str] = {
    "like": ",",
    "output": ",",
}


def clusters(
    *,
    like: Value = None,
    output: Value = None,
) -> Result[Row]:
    """Lists the clusters that ship with pipesim, for --cluster, or prints the description of one.

    like: Print a file to start from: all keys of that cluster with their meaning, and KEY=VALUE in place of its
        own [default: none]
    output: With --like: write it there [default: standard output]
    """
    options = _words(_CLUSTERS, locals())
    return _ask(Row, "clusters", [], options)
