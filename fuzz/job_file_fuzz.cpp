// A file of a job (--config) as any text, and the study that its hyperparameters describe.
#include <string>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/orchestration/jobs/job_text.h"
#include "muster/orchestration/jobs/machines.h"
#include "muster/orchestration/tuning/hyperparameter_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    muster::jobs::Submission submission;
    muster::jobs::read_job_text({reinterpret_cast<const char*>(data), size}, "job.yaml",
                                submission);
    muster::jobs::job_from_json(muster::jobs::to_json(submission.job));
    const std::string& kept = submission.job.training_input.cloud_fields;
    constexpr std::string_view kBlock = R"({"hyperparameters":)";
    if (!kept.starts_with(kBlock)) return 0;
    muster::tuning::parse_hyperparameters(
        kept.substr(kBlock.size(), kept.size() - kBlock.size() - 1));
  } catch (const muster::Error&) {
  }
  return 0;
}

namespace muster::fuzz {
namespace {

// Nine lists of nine aliases each: nine to the power of nine values.
std::string bomb() {
  std::string text =
      "trainingInput:\n  hyperparameters:\n    a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    text += "    a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 9; ++k) text += (k == 0 ? "*a" : ", *a") + std::to_string(i - 1);
    text += "]\n";
  }
  return text;
}

// Each value is a list around the one before it.
std::string deep(int levels) {
  std::string text = "trainingInput:\n  hyperparameters:\n    a0: &a0 [1]\n";
  for (int i = 1; i < levels; ++i) {
    const std::string number = std::to_string(i);
    text += "    a" + number + ": &a" + number + " [*a" + std::to_string(i - 1) + "]\n";
  }
  return text;
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      "trainingInput:\n  scaleTier: CUSTOM\n  masterType: standard\n  workerCount: "
      "9223372036854775807\n"
      "  workerType: n1\n  args: ['--x', \"-1\", 1e999, ~, 0x7f, .inf, .nan]\n"
      "  scheduling: {maxRunningTime: 7200s, priority: 1000}\nlabels: {a: b}\njobId: x\n",
      "trainingInput:\n  hyperparameters:\n    goal: MAXIMIZE\n    hyperparameterMetricTag: auc\n"
      "    maxTrials: 9\n    maxParallelTrials: 2\n    params:\n"
      "    - &p {parameterName: rate, type: DOUBLE, minValue: 1e-9, maxValue: 1, scaleType: "
      "UNIT_LOG_SCALE}\n    - {parameterName: kind, type: CATEGORICAL, categoricalValues: [a, b]}\n"
      "    - {parameterName: n, type: INTEGER, minValue: -9223372036854775808, maxValue: "
      "9223372036854775807}\n",
      "trainingInput: &x {scaleTier: *x}\n",
      "trainingInput: &x\n  hyperparameters: {params: [*x]}\n",
      "labels: &x [*x, *x]\n",
      ",labels: {a: b}\n",
      bomb(),
      deep(400),
      "trainingInput:\n  hyperparameters: " + std::string(600, '[') + std::string(600, ']') + "\n",
      "- &a a\n- !!str *a\n- {<<: *a, ? [b] : c}\n--- x\n...\n",
  };
}

// A node of yaml-cpp is some hundred bytes, and aliases may repeat values up to limits of their
// own.
MemoryBound memory_bound() {
  return {.base_bytes = std::size_t{32} << 20, .bytes_per_input_byte = 2048};
}

}  // namespace muster::fuzz
