"""Who earns more than 50,000 dollars a year? examples/census in Python: the same flags, and the same weights to the bit."""
import argparse
import muster

parser = argparse.ArgumentParser()
for name, value in (("train-files", None), ("eval-files", None), ("job-dir", None), ("train-steps", 5000), ("train-batch-size", 40),
                    ("eval-batch-size", 40), ("seed", 0), ("replicas", 0), ("threads-per-replica", 0)):
    parser.add_argument("--" + name, type=str if value is None else int, default=value, required=value is None)
flags = parser.parse_args()
words = {
    "workclass": "Self-emp-not-inc Private State-gov Federal-gov Local-gov ? Self-emp-inc Without-pay Never-worked",
    "education": "Bachelors HS-grad 11th Masters 9th Some-college Assoc-acdm Assoc-voc 7th-8th Doctorate Prof-school 5th-6th "
                 "10th 1st-4th Preschool 12th",
    "marital_status": "Married-civ-spouse Divorced Married-spouse-absent Never-married Separated Married-AF-spouse Widowed",
    "gender": "Female Male", "relationship": "Husband Not-in-family Wife Own-child Unmarried Other-relative",
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White"}
known = {key: muster.categorical_column_with_vocabulary_list(key, text.split()) for key, text in words.items()}
hashed = [muster.categorical_column_with_hash_bucket(key, 100) for key in ("occupation", "native_country")]
fields = dict(age=0, workclass="", fnlwgt=..., education="", education_num=0, marital_status="", occupation="", relationship="",
              race="", gender="", capital_gain=0, capital_loss=0, hours_per_week=0, native_country="", income_bracket=None)
numbers = {key: muster.numeric_column(key, default_value=0) for key, blank in fields.items() if blank == 0}
ages = muster.bucketized_column(numbers["age"], [18, 25, 30, 35, 40, 45, 50, 55, 60, 65])
crosses = [(["education", "occupation"], 10**4), ([ages, "race", "occupation"], 10**6), (["native_country", "occupation"], 10**4)]
wide = [muster.crossed_column(*cross) for cross in crosses] + [known[key] for key in words if key != "race"] + hashed + [ages]
deep = [muster.indicator_column(column) for column in known.values()] + [*numbers.values()]
deep += [muster.embedding_column(column, 8) for column in hashed]
labels = dict(label="income_bracket", label_vocabulary=["<=50K", ">50K"])
sets = [muster.ColumnSet(wide, linear=True), muster.ColumnSet(deep)]
def people(files, size):
    def input_fn(context):
        rows = muster.csv_rows(files, skip_empty_lines=True)
        rows = rows.shuffle(10 * size, context.seed).shard(context).repeat() if context.training else rows
        return rows.batch(size).parse_csv(fields=fields, strip_blanks=True, columns=sets, **labels).prefetch(4)
    return input_fn
config = muster.RunConfig(flags.job_dir, tf_random_seed=flags.seed, replicas=flags.replicas,
                          threads_per_replica=flags.threads_per_replica)
model = muster.dnn_linear_combined_classifier(linear_columns=wide, dnn_columns=deep, hidden_units=[100, 70, 48, 34], config=config)
result = muster.train_and_evaluate(
    model, muster.TrainSpec(people(flags.train_files, flags.train_batch_size), flags.train_steps),
    muster.EvalSpec(people(flags.eval_files, flags.eval_batch_size), steps=None, name="census-eval"))
print("\n".join(f"{name} = {value:g}" for name, value in result.metrics.items()))
