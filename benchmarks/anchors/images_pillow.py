#!/usr/bin/env python3
"""How a user of Pillow or torchvision makes training pictures: JPEGs of a folder decoded, a random part resized to
224 x 224, mirrored half of the time and normalised, on one thread.

    images_pillow.py FOLDER [--rounds N]

Files lie in memory. The rate is that of the quickest round, by the processor's time: a busy machine changes it least. Prints
the best images/s and those of every library as one JSON line; torchvision is skipped where it is not installed.
"""
import argparse
import glob
import io
import json
import math
import os
import random
import time

import numpy as np
from PIL import Image

SIZE = 224
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


def random_box(width, height):
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    return 0, 0, width, height


def pillow_numpy(data):
    image = Image.open(io.BytesIO(data)).convert("RGB")
    left, top, width, height = random_box(*image.size)
    image = image.resize((SIZE, SIZE), Image.BILINEAR, box=(left, top, left + width, top + height))
    if random.random() < 0.5:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    values = np.asarray(image, np.float32)
    values = values * (1 / (255 * DEVIATION)) - MEAN / DEVIATION
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def ways_of_torchvision():
    try:
        import torch
        import torchvision
        from torchvision import transforms
    except ImportError:
        return {}
    torch.set_num_threads(1)
    of_pillow = transforms.Compose([
        transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize(MEAN.tolist(), DEVIATION.tolist())])
    of_tensors = transforms.Compose([
        transforms.RandomResizedCrop(SIZE, antialias=True), transforms.RandomHorizontalFlip(),
        transforms.ConvertImageDtype(torch.float32), transforms.Normalize(MEAN.tolist(), DEVIATION.tolist())])

    def pillow_torchvision(data):
        return of_pillow(Image.open(io.BytesIO(data)).convert("RGB"))

    def torchvision_alone(data):
        return of_tensors(torchvision.io.decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8)))

    return {"Pillow and torchvision": pillow_torchvision, "torchvision": torchvision_alone}


def rate(way, files, rounds):
    for data in files[:4]:
        way(data)
    best = 0
    for _ in range(rounds):
        start = time.process_time()
        for data in files:
            way(data)
        best = max(best, len(files) / (time.process_time() - start))
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    files = [open(path, "rb").read() for path in sorted(glob.glob(os.path.join(options.folder, "*.jpg")))]
    rates = {}
    for name, way in {"Pillow and numpy": pillow_numpy, **ways_of_torchvision()}.items():
        try:
            rates[name] = rate(way, files, options.rounds)
        except (RuntimeError, AttributeError) as error:
            # A torchvision that was built without JPEG.
            rates[name] = 0
            print(error, file=__import__("sys").stderr)
    best = max(rates, key=rates.get)
    print(json.dumps({"images_per_second": rates[best], "setting": best, "all": rates}))


if __name__ == "__main__":
    main()
