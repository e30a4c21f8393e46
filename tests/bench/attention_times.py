#!/usr/bin/env python3
"""Times the attention of this machine's PyTorch: cuDNN, FlashAttention and whatever else it brings.

    attention_times.py [--ini FILE] [--json FILE] [--seconds S]

The yardstick beside which gpu_kernels (same shapes, same counting of FLOPs, same kind of timing) is read, and a source
of kernel tables: FILE.ini is what `cpsim --hw --calibrate PROFILE --kernel-times FILE.ini` takes, so that a prediction
can be made for the kernel that will really run. Exit status 77 without PyTorch or a GPU.

bf16, one sequence, 64 query and 8 KV heads. TFLOP/s by FLOPs = 4 x pairs x head dim x heads, 2.5 times that backward;
pairs = S^2, or S^2 / 2 causal. Times are by CUDA events around several calls, after a warm-up as long as the
measurement; printed are the median and the 10th and 90th percentile. Inputs are random.
"""
import argparse
import datetime
import json
import statistics
import sys

try:
    import torch
    import torch.nn.functional as functional
except ImportError as error:
    print(f"no PyTorch here: {error}", file=sys.stderr)
    sys.exit(77)

Q_HEADS, KV_HEADS = 64, 8
SIZES = {128: (2048, 4096, 8192, 16384), 64: (8192,), 256: (8192,)}


def sdpa_kernels():
    """The backends of scaled_dot_product_attention, as name and a function of q, k, v (heads, rows, dim) and causal."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return
    for name, member in (("cudnn", "CUDNN_ATTENTION"), ("flash", "FLASH_ATTENTION")):
        backend = getattr(SDPBackend, member, None)
        if backend is None:
            continue

        def call(q, k, v, causal, backend=backend):
            with sdpa_kernel([backend]):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

        yield name, call, "heads first"


def package_kernels():
    """FlashAttention's own packages, which take (batch, rows, heads, dim)."""
    try:
        from flash_attn_interface import flash_attn_func as flash_3

        def call_3(q, k, v, causal):
            out = flash_3(q, k, v, causal=causal)
            return out[0] if isinstance(out, tuple) else out

        yield "fa3", call_3, "rows first"
    except ImportError:
        pass
    try:
        from flash_attn import flash_attn_func as flash_2

        yield "fa2", lambda q, k, v, causal: flash_2(q, k, v, causal=causal), "rows first"
    except ImportError:
        pass


def tensors(rows, dim, layout):
    def make(heads):
        shape = (1, heads, rows, dim) if layout == "heads first" else (1, rows, heads, dim)
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    inputs = [make(Q_HEADS), make(KV_HEADS), make(KV_HEADS)]
    return [tensor.requires_grad_() for tensor in inputs], make(Q_HEADS)


def time_calls(call, calls):
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before.record()
    for _ in range(calls):
        call()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) * 1e-3 / calls


def measure(call, seconds):
    """Seconds of one call: 10th percentile, median, 90th percentile."""
    time_calls(call, 1)
    once = time_calls(call, 1)
    calls = max(1, round(1e-3 / once))
    warm = 0.0
    while warm < seconds:
        warm += time_calls(call, calls) * calls
    samples, spent = [], 0.0
    while len(samples) < 5 or (spent < seconds and len(samples) < 200):
        samples.append(time_calls(call, calls))
        spent += samples[-1] * calls
    samples.sort()
    return samples[len(samples) // 10], statistics.median(samples), samples[-1 - len(samples) // 10]


def times_of(kernel, rows, dim, causal, seconds):
    """Forward and backward seconds, or None and the reason."""
    _, call, layout = kernel
    (q, k, v), gradient = tensors(rows, dim, layout)
    try:
        with torch.no_grad():
            forward = measure(lambda: call(q, k, v, causal), seconds)
        out = call(q, k, v, causal)
        backward = measure(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True), seconds)
    except (RuntimeError, TypeError) as error:
        return None, str(error).splitlines()[0]
    return (forward, backward), None


def write_ini(path, results, versions):
    """Kernel tables in the format of device profiles: rates at square sizes."""
    day = datetime.date.today().isoformat()
    with open(path, "w", encoding="utf-8") as file:
        print(f"; Written by attention_times.py on {day}: {versions}", file=file)
        for (name, dim), table in sorted(results.items()):
            for passing in ("forward", "backward"):
                print(f"\n[attention {name} {passing} {dim}]\ndtype  = bf16\nheads  = {Q_HEADS}\nbatch  = 1", file=file)
                spread = 0.0
                for mask in ("full", "causal"):
                    points = table.get((passing, mask), [])
                    if points:
                        rates = ", ".join(f"{rows}: {rate / 1e12:.5g} TFLOP/s" for rows, rate, _ in sorted(points))
                        print(f"{mask:<6} = {rates}", file=file)
                        spread = max([spread] + [width for _, _, width in points])
                print(f"spread = {spread:.3g}\nsource = measured by attention_times.py, {versions}, {day}", file=file)


def main():
    parser = argparse.ArgumentParser(description="Times the attention of this machine's PyTorch.")
    parser.add_argument("--ini", help="write kernel tables for cpsim --calibrate --kernel-times")
    parser.add_argument("--json", help="write the rows")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each case, and for warming up")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU", file=sys.stderr)
        return 77
    versions = (f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}, "
                f"{torch.cuda.get_device_name()}")
    print(versions)
    rows_out, results = [], {}
    for kernel in [*sdpa_kernels(), *package_kernels()]:
        for dim, sizes in SIZES.items():
            for rows in sizes:
                for causal in (False, True):
                    times, reason = times_of(kernel, rows, dim, causal, arguments.seconds)
                    mask = "causal" if causal else "full"
                    if times is None:
                        print(f"{kernel[0]:<10} {rows:6} {dim:4}  {mask:<6} not here: {reason}")
                        continue
                    flops = 4 * Q_HEADS * dim * rows * rows * (0.5 if causal else 1)
                    for passing, factor, (low, median, high) in (("forward", 1, times[0]), ("backward", 2.5, times[1])):
                        work = flops * factor
                        print(f"{kernel[0]:<10} {passing:<10} {rows:6} {dim:4}  {mask:<6} {median * 1e3:9.3f} ms  "
                              f"{work / median / 1e12:8.1f} TFLOP/s  ({work / high / 1e12:.1f} to {work / low / 1e12:.1f})",
                              flush=True)
                        rows_out.append({"kernel": kernel[0], "pass": passing, "rows": rows, "head_dim": dim,
                                         "mask": mask, "seconds": median, "rate": work / median, "low": work / high,
                                         "high": work / low, "unit": "TFLOP/s"})
                        results.setdefault((kernel[0], dim), {}).setdefault((passing, mask), []).append(
                            (rows, work / median, (high - low) / 2 / median))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"versions": versions, "rows": rows_out}, file, indent=1)
    if arguments.ini and results:
        write_ini(arguments.ini, results, versions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
