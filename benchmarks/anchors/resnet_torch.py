#!/usr/bin/env python3
"""What a user of PyTorch would run: the training step of ResNet-44 for CIFAR-10 on the CPU, as fast as plain PyTorch
does it here.

    resnet_torch.py [--setting "THREADS,ONEDNN,BLAS"] [--batch N] [--steps N]

Prints the best examples/s over numbers of threads, oneDNN on and off and numbers of OpenBLAS's threads, or that of one
setting such as "2,off,1", as one JSON line. The batch lies in memory, so input costs nothing. OpenBLAS reads its number
of threads when it is loaded: each setting is a process of its own.
"""
import argparse
import json
import os
import subprocess
import sys


def settings():
    processors = len(os.sched_getaffinity(0))
    for threads in sorted({1, processors}):
        yield f"{threads},on,1"
        for blas in sorted({1, processors}):
            yield f"{threads},off,{blas}"


def measure(setting, batch, steps):
    import time

    import torch
    from torch import nn
    from torch.nn import functional as F

    class Unit(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.first_norm = nn.BatchNorm2d(outputs)
            self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.second_norm = nn.BatchNorm2d(outputs)
            self.stride, self.more = stride, (outputs - inputs) // 2

        def forward(self, x):
            y = self.second_norm(self.second(F.relu(self.first_norm(self.first(x)))))
            if self.more:
                x = F.pad(F.avg_pool2d(x, self.stride), (0, 0, 0, 0, self.more, self.more))
            return F.relu(y + x)

    threads, onednn, _ = setting.split(",")
    torch.manual_seed(1)
    torch.set_num_threads(int(threads))
    units, channels = [], 16
    for outputs, stride in ((16, 1), (32, 2), (64, 2)):
        for i in range(7):
            units.append(Unit(channels, outputs, stride if i == 0 else 1))
            channels = outputs
    model = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *units,
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 11))
    x, y = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
    if onednn == "on":
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=2e-4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    times = []
    with torch.backends.mkldnn.flags(enabled=onednn == "on"):
        step()
        for _ in range(steps):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
    return batch / sorted(times)[len(times) // 2]


def in_its_own_process(setting, flags):
    environment = dict(os.environ, OPENBLAS_NUM_THREADS=setting.split(",")[2])
    command = [sys.executable, __file__, "--setting", setting, "--batch", str(flags.batch), "--steps", str(flags.steps)]
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    return json.loads(output)["examples_per_second"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--setting")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=1)
    flags = parser.parse_args()
    if flags.setting and os.environ.get("OPENBLAS_NUM_THREADS") == flags.setting.split(",")[2]:
        rate = measure(flags.setting, flags.batch, flags.steps)
        print(json.dumps({"examples_per_second": rate, "setting": flags.setting}))
        return
    wanted = [flags.setting] if flags.setting else list(settings())
    results = {setting: in_its_own_process(setting, flags) for setting in wanted}
    best = max(results, key=results.get)
    print(json.dumps({"examples_per_second": results[best], "setting": best, "all": results}))


if __name__ == "__main__":
    main()
