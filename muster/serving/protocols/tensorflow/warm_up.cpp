#include "muster/serving/protocols/tensorflow/warm_up.h"

#include <fmt/core.h>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/records/record_reader.h"
#include "muster/serving/codec/example_request.h"
#include "muster/serving/protocols/tensorflow/tensorflow_calls_internal.h"

namespace muster::serving {
namespace {

namespace wire = tensorflow::serving;

constexpr std::size_t kMostWarmUpTensorBytes = std::size_t{1} << 30;

std::string signature_in(const wire::ModelSpec& spec) {
  return spec.signature_name().empty() ? std::string(graph::kDefaultSignature)
                                       : spec.signature_name();
}

const graph::SignatureDef& signature_of_record(const ModelVersion& version,
                                               const std::string& name) {
  const graph::SignatureDef* const signature = version.find_signature(name);
  if (signature == nullptr) throw NotFound("Serving signature key \"{}\" not found.", name);
  return *signature;
}

void run_examples_of(const ModelVersion& version, const wire::ModelSpec& spec,
                     const wire::Input& input) {
  const std::string name = signature_in(spec);
  version.run(name,
              serving::example_inputs(signature_of_record(version, name), examples_of(input)));
}

void run_record(const ModelVersion& version, const wire::PredictionLog& record) {
  switch (record.log_type_case()) {
    case wire::PredictionLog::kPredictLog: {
      const auto& request = record.predict_log().request();
      const std::string name = signature_in(request.model_spec());
      version.run(name, predict_inputs(request, signature_of_record(version, name),
                                       kMostWarmUpTensorBytes));
      return;
    }
    case wire::PredictionLog::kClassifyLog:
      return run_examples_of(version, record.classify_log().request().model_spec(),
                             record.classify_log().request().input());
    case wire::PredictionLog::kRegressLog:
      return run_examples_of(version, record.regress_log().request().model_spec(),
                             record.regress_log().request().input());
    case wire::PredictionLog::kMultiInferenceLog:
      for (const auto& task : record.multi_inference_log().request().tasks()) {
        run_examples_of(version, task.model_spec(), record.multi_inference_log().request().input());
      }
      return;
    default:
      throw Unimplemented(
          "a record holds none of predict_log, classify_log, regress_log and "
          "multi_inference_log");
  }
}

}  // namespace

Path warm_up_file(const Path& dir) { return dir / "assets.extra" / "tf_serving_warmup_requests"; }

void warm_up(const ModelVersion& version, const Path& dir, int times) {
  const Path path = warm_up_file(dir);
  if (!file_exists(path)) return;
  int count = 0;
  try {
    RecordReader reader(path);
    while (const auto bytes = reader.next()) {
      if (++count > kMostWarmUpRecords) {
        throw InvalidArgument("Number of warmup records exceeds the maximum ({}) at {}",
                              kMostWarmUpRecords, path.string());
      }
      wire::PredictionLog record;
      if (!record.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()))) {
        throw DataLoss("record {} is no PredictionLog", count);
      }
      for (int i = 0; i < times; ++i) run_record(version, record);
    }
  } catch (Error& error) {
    if (error.code() == ErrorCode::kDataLoss) {
      error.add_context("Please verify your warmup data is in TFRecord format.");
    }
    error.add_context(fmt::format("warming up with {}, record {}", path.string(), count));
    throw;
  }
  log::info("warmed up model={} version={} records={}", version.model(), version.number(), count);
}

}  // namespace muster::serving
