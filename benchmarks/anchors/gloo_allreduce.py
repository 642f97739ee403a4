"""All-reduce of float32 over two processes on loopback with Gloo, as torch.distributed does it.

  gloo_allreduce.py --bytes 64000000

Prints one JSON line with sums per second (as examples_per_second, which the benchmarks read).
"""
import argparse
import json
import multiprocessing
import os
import socket
import time


def run(rank, port, count, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    values = torch.ones(count)
    for _ in range(3):
        dist.all_reduce(values)
    rates = []
    for _ in range(3):
        dist.barrier()
        start, sums = time.perf_counter(), 10
        for _ in range(sums):
            dist.all_reduce(values)
        rates.append(sums / (time.perf_counter() - start))
    if rank == 0:
        results.put((sorted(rates)[1], torch.__version__))
    dist.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=int, default=64_000_000)
    count = parser.parse_args().bytes // 4
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    tasks = [context.Process(target=run, args=(rank, port, count, results)) for rank in range(2)]
    for task in tasks:
        task.start()
    rate, version = results.get(timeout=120)
    for task in tasks:
        task.join()
    print(json.dumps({"examples_per_second": rate, "setting": "gloo", "torch": version}))


if __name__ == "__main__":
    main()
