"""Handwritten digits: the network of examples/mnist as a torch.nn.Module, trained by muster from TFRecord files."""
import argparse
import muster
import torch
from torch import nn

parser = argparse.ArgumentParser()
for name, value in (("train-files", None), ("eval-files", None), ("job-dir", None), ("train-steps", 1000), ("train-batch-size", 32),
                    ("eval-batch-size", 32), ("seed", 0), ("replicas", 0), ("threads-per-replica", 0)):
    parser.add_argument("--" + name, type=str if value is None else int, default=value, required=value is None)
flags = parser.parse_args()


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32, eps=1e-3, momentum=0.01)
        self.conv2, self.norm2 = nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64, eps=1e-3, momentum=0.01)
        self.dense, self.norm3 = nn.Linear(7 * 7 * 64, 1024), nn.BatchNorm1d(1024, eps=1e-3, momentum=0.01)
        self.dropout, self.logits = nn.Dropout(0.5), nn.Linear(1024, 10)

    def forward(self, image):
        y = image.view(-1, 1, 28, 28)
        y = torch.max_pool2d(torch.relu(self.norm1(self.conv1(y))), 2)
        y = torch.max_pool2d(torch.relu(self.norm2(self.conv2(y))), 2)
        return self.logits(self.dropout(torch.relu(self.norm3(self.dense(y.flatten(1))))))


specs = {"image": muster.FixedLen(muster.FeatureKind.FLOAT, [784]), "label": muster.FixedLen(muster.FeatureKind.INT64, [1])}


def digits(files, size):
    def input_fn(context):
        records = muster.tfrecords(files)
        if context.training:
            records = records.global_shuffle(context.seed).shard(context).repeat()
        return records.parse_examples(size, specs).prefetch(2)
    return input_fn


# The same first values in every task of a cluster.
torch.manual_seed(flags.seed)
config = muster.RunConfig(flags.job_dir, tf_random_seed=flags.seed, replicas=flags.replicas,
                          threads_per_replica=flags.threads_per_replica)
model = muster.Estimator(model=muster.torch_model(MnistCnn()), head=muster.multi_class_head(10),
                         optimizer=muster.adam(learning_rate=0.001), config=config)
result = muster.train_and_evaluate(model, muster.TrainSpec(digits(flags.train_files, flags.train_batch_size), flags.train_steps),
                                   muster.EvalSpec(digits(flags.eval_files, flags.eval_batch_size), steps=None))
print("\n".join(f"{name} = {value:g}" for name, value in result.metrics.items()))
